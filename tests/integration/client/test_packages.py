"""`make dist`: what the packages of a release have in them, and that they install."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from qss_core.version import VERSION
from qss_testing.pods.pod_process import PodCluster

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
UV = str(Path(sys.executable).parent / "uv")
PACKAGES = (
    *("qss_core", "qss_client", "qss_store"),
    *("qss_operator", "qss_spark", "pyspark_queryablestate"),
)
IMAGES = {"store": ("example.com/qss/store", "a"), "operator": ("example.com/qss/operator", "b")}
# What the client needs, and what these need.
OF_CLIENT = {
    *("aiohttp", "msgspec", "urllib3"),
    *("aiohappyeyeballs", "aiosignal", "attrs", "frozenlist", "idna", "multidict", "propcache"),
    *("typing-extensions", "yarl"),
}
# Reads by both clients, and names what it has imported.
PROGRAM = """
import asyncio, sys
from qss_client import AsyncStore, Store
url, store = sys.argv[1:]
async def ask():
    async with AsyncStore(url, store) as asked:
        return await asked.get("absent")
with Store(url, store) as asked:
    print(asked.get("absent"), list(asked.prefix("a")), asyncio.run(ask()))
"""


def run(*command: str, timeout_s: float = 600.0) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("packages") / "dist"
    images = [f"{name}={where}@sha256:{one * 64}" for name, (where, one) in IMAGES.items()]
    options = [word for image in images for word in ("--image", image)]
    run(sys.executable, ".ci/make-dist", "--directory", str(directory), *options)
    return directory


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


def environment(directory: Path, *packages: str) -> Path:
    """The Python of an empty environment with packages, from uv's cache alone."""
    python = directory / "bin" / "python"
    run(UV, "venv", "--quiet", "--python", sys.executable, str(directory))
    install = (UV, "pip", "install", "--quiet", "--offline", "--python", str(python))
    build = ("--build-constraints", ".ci/build.lock", "--constraints", "requirements.lock")
    run(*install, *build, *packages)
    return python


def test_a_release_has_all_packages_and_their_sums(dist: Path, wheel: Path) -> None:
    names = {file.name for file in dist.iterdir()}
    assert names == {
        "SHA256SUMS",
        wheel.name,
        f"queryable_state-{VERSION}.tar.gz",
        f"queryable-state-{VERSION}.tgz",
        *(f"{image}-{VERSION}.cdx.json" for image in ("store", "operator", "spark")),
    }
    sums = dict(line.split()[::-1] for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: sha256((dist / name).read_bytes()).hexdigest() for name in names - {"SHA256SUMS"}
    }


def test_a_directory_with_other_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    refused = subprocess.run(
        [sys.executable, ".ci/make-dist", "--directory", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert f"{tmp_path} has other files than a release: delete it first" in refused.stderr
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_the_wheel_has_typed_packages_and_the_resource(dist: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert "qss_operator/queryablestatestores.yaml" in names
    # `qss demo` runs them.
    jobs = {file.name for file in (ROOT / "spark-jobs" / "jobs").iterdir() if file.is_file()}
    assert {name for name in names if name.startswith("qss_spark/jobs/")} == {
        f"qss_spark/jobs/{name}" for name in jobs
    }
    assert {name.partition("/")[0] for name in names} - {
        f"queryable_state-{VERSION}.dist-info"
    } == {*PACKAGES}
    with tarfile.open(dist / f"queryable_state-{VERSION}.tar.gz") as sources:
        top = {name.split("/")[1] for name in sources.getnames()}
    assert {"crds", "store-pod", "LICENSE", "CHANGELOG.md"} <= top
    assert not {"tests", ".venv", ".ci"} & top


def test_the_chart_names_its_images_by_digest(dist: Path) -> None:
    with tarfile.open(dist / f"queryable-state-{VERSION}.tgz") as archive:
        texts = {
            member.name: file.read().decode()
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }
    assert not any("/docs/" in name for name in texts)
    chart = yaml.safe_load(texts["queryable-state/Chart.yaml"])
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    values = yaml.safe_load(texts["queryable-state/values.yaml"])
    for name, block in (("operator", values["image"]), ("store", values["storeImage"])):
        where, one = IMAGES[name]
        assert (block["repository"], block["digest"]) == (where, f"sha256:{one * 64}")
    assert "digest: sha256" not in (ROOT / "charts/queryable-state/values.yaml").read_text()


@pytest.mark.parametrize("image", ["store", "operator", "spark"])
def test_a_bill_of_materials_lists_the_lock_of_an_image(dist: Path, image: str) -> None:
    bill = json.loads((dist / f"{image}-{VERSION}.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "queryable-state"
    directory = {"store": "store-pod", "operator": "operator", "spark": "spark-jobs"}[image]
    lock = (ROOT / directory / "requirements.lock").read_text()
    locked = set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    assert {component["name"] for component in bill["components"]} == locked


def test_the_client_alone_brings_what_it_needs_and_no_more(
    wheel: Path, words: PodCluster, tmp_path: Path
) -> None:
    python = environment(tmp_path / "client", str(wheel))
    listed = json.loads(run(UV, "pip", "list", "--python", str(python), "--format", "json"))
    assert {one["name"] for one in listed} - {"queryable-state"} <= OF_CLIENT
    assert run(str(python), "-c", PROGRAM, words.url, words.store) == "None [] None\n"


def test_store_and_command_line_install_from_the_wheel_and_from_the_sources(
    dist: Path, wheel: Path, tmp_path: Path
) -> None:
    python = environment(tmp_path / "whole", f"{wheel}[store,cli]")
    assert "explain" in run(str(python.parent / "qss"), "--help")
    assert "--data-dir" in run(str(python), "-m", "qss_store", "--help")
    sources = environment(tmp_path / "sources", str(dist / f"queryable_state-{VERSION}.tar.gz"))
    found = run(
        str(sources),
        "-c",
        "import qss_client, importlib.metadata as m; print(m.version('queryable-state'))",
    )
    assert found == f"{VERSION}\n"


def test_one_version_is_everywhere() -> None:
    chart = yaml.safe_load((ROOT / "charts/queryable-state/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    for directory in ("store-pod", "operator", "spark-jobs"):
        text = (ROOT / directory / "Dockerfile").read_text()
        assert f'org.opencontainers.image.version="{VERSION}"' in text
    manifests = [*(ROOT / "spark-jobs" / "kubernetes").glob("*.yaml")]
    named = {tag for file in manifests for tag in re.findall(r"/spark:(\S+)", file.read_text())}
    assert named == {VERSION}
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## \[?(\d\S*?)\]?(?: |$)", changes, re.MULTILINE)[:1] in ([], [VERSION])
