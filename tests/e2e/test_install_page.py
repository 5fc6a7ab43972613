"""The commands of Helm on the page on installing, with the package that `make dist` makes."""

import shlex
import subprocess
import sys
from pathlib import Path

from e2e.environment import ROOT, Images
from e2e.kubectl import Cluster
from e2e.namespaces import fresh_namespace
from e2e.releases import RELEASE, running
from qss_testing.page_commands import outputs_of_page

_PAGE = "store-pod/docs/install.md"
_NAMED = (
    "image.repository=REGISTRY/operator,image.tag=TAG,"
    "storeImage.repository=REGISTRY/store,storeImage.tag=TAG"
)
_HELM_S = 240.0


def test_the_release_is_installed_and_removed_as_the_page_says(
    cluster: Cluster, images: Images, tmp_path: Path
) -> None:
    subprocess.run(
        [sys.executable, ".ci/make-dist", "--directory", tmp_path / "dist"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=_HELM_S,
    )
    with fresh_namespace(cluster, "qss-e2e-install-page") as made:
        # An earlier run may have made the CRD.
        made.run(
            *command("helm install", made, images, tmp_path), "--take-ownership", timeout_s=_HELM_S
        )
        assert running(made)
        made.run(*command("helm uninstall", made, images, tmp_path), "--wait", timeout_s=_HELM_S)
        assert made.helm("list", "--short") == ""


def command(begin: str, here: Cluster, images: Images, directory: Path) -> list[str]:
    """The words of the page's command, for this namespace, these images and this directory."""
    page = outputs_of_page(_PAGE).items()
    (text,) = (f"{one} {more}" for one, more in page if one.startswith(begin))
    named = (("image", images.operator), ("storeImage", images.store))
    pairs = [
        f"{block}.repository={image.rpartition(':')[0]},{block}.tag={image.rpartition(':')[2]}"
        for block, image in named
    ]
    text = text.replace("\\", "").replace(_NAMED, ",".join(pairs))
    text = text.replace("dist/", f"{directory}/dist/")
    text = text.replace("--namespace queryable-state", f"--namespace {here.namespace}")
    program, verb, _, *rest = shlex.split(text)
    return [program, verb, RELEASE, *rest]
