"""The sources of the operator's credentials; a pod's token is read again."""

from pathlib import Path

import pytest
from kubernetes.aio.client import Configuration

from qss_operator.kubernetes.api.connection import KubeconfigError, Source, find_source

IN_POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_uses_its_service_account_unless_told_otherwise(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.touch()
    assert find_source(None, None, IN_POD).kubeconfig is None
    assert find_source(str(config), None, IN_POD).kubeconfig == str(config)
    assert find_source(None, "kind", {**IN_POD, "KUBECONFIG": str(config)}).context == "kind"
    several = f"{tmp_path}/absent:{config}"
    assert find_source(None, None, {"KUBECONFIG": several}).kubeconfig == several
    with pytest.raises(KubeconfigError):
        find_source(None, None, {"KUBECONFIG": str(tmp_path / "absent")})


async def test_a_pods_token_is_read_again(tmp_path: Path) -> None:
    source = Source(kubeconfig=None, service_account=tmp_path, environment=IN_POD)
    configuration = Configuration()
    with pytest.raises(KubeconfigError, match=str(tmp_path)):
        await source.load_into(configuration)
    (tmp_path / "ca.crt").write_text("not looked at")
    for token in ("first", "second"):
        (tmp_path / "token").write_text(token)
        await source.load_into(configuration)
        assert configuration.host == "https://[fd00::1]:443"
        assert await configuration.get_api_key_with_prefix("BearerToken") == f"bearer {token}"
