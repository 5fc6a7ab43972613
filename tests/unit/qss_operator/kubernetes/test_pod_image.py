"""The version of a pod is the tag of its image, as people write it."""

import pytest

from qss_operator.kubernetes.objects.pod_image import version_of

_DIGEST = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("qss/store:0.1.0", "0.1.0"),
        ("localhost:5000/qss/store:0.1.0-rc.1", "0.1.0-rc.1"),
        ("localhost:5000/qss/store", "latest"),
        ("store", "latest"),
        (f"registry.example.com/store:0.1.0@{_DIGEST}", "0.1.0"),
        (f"registry.example.com:443/store@{_DIGEST}", "sha256:0123456789ab"),
    ],
)
def test_the_version_is_the_tag_or_the_start_of_the_digest(image: str, version: str) -> None:
    containers = [{"name": "proxy", "image": "proxy:7"}, {"name": "store", "image": image}]
    assert version_of({"spec": {"containers": containers}}) == version


@pytest.mark.parametrize("pod", [None, {}, {"spec": {"containers": [{"name": "store"}]}}])
def test_a_pod_that_is_not_there_has_no_version(pod: dict[str, object] | None) -> None:
    assert version_of(pod) == ""
