"""Generators of several languages make clients from the OpenAPI document; one client is used."""

import asyncio
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qss_store.http.query.openapi.document import make_document
from qss_store.http.query.routes import QUERY_ROUTES
from qss_testing.pods.stores import Cluster

pytestmark = pytest.mark.long

Command = list[str | Path]
StartCluster = Callable[..., Awaitable[Cluster]]
DOCUMENT = make_document(QUERY_ROUTES)
PROGRAMS = Path(sys.executable).parent
LANGUAGES = ["python", "java", "go", "typescript-fetch"]
# Only if npm has installed it: tests load nothing from the network.
TYPESCRIPT = shutil.which("openapi-typescript")


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


def run(*command: str | Path, at: Path) -> str:
    """The output of a program that has to succeed."""
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def all_schemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for one in schema:
            yield from all_schemas(one)
    if isinstance(schema, dict):
        yield schema
        for one in schema.values():
            yield from all_schemas(one)


def test_schemas_are_of_the_words_that_generators_know() -> None:
    for name, component in DOCUMENT["components"]["schemas"].items():
        assert component["title"] == name
    for schema in all_schemas(DOCUMENT):
        assert "prefixItems" not in schema
        assert schema.get("type") != "array" or isinstance(schema["items"], dict)
        for choice in schema.get("anyOf", []) + schema.get("oneOf", []):
            # An object has a name.
            assert "properties" not in choice


def test_every_operation_says_what_it_is_for() -> None:
    assert all(server["url"] for server in DOCUMENT["servers"])
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            assert set(operation["tags"]) <= tags
            assert operation["description"]
            assert {"401", "403", "429", "431", "503"} <= set(operation["responses"])
            for parameter in operation["parameters"]:
                assert parameter["description"]
                assert "example" in parameter or parameter["in"] == "query"
            for content in operation.get("requestBody", {}).get("content", {}).values():
                assert content["example"]


async def test_the_generated_python_client_asks_a_pod(
    start_cluster: StartCluster, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = document.parent / "pod_client"
    generate: Command = [PROGRAMS / "openapi-python-client", "generate", "--meta", "none"]
    # The generator formats its output with ruff.
    monkeypatch.setenv("PATH", str(PROGRAMS), prepend=":")
    run(*generate, "--path", document, "--output-path", target, at=document.parent)
    monkeypatch.syspath_prepend(str(document.parent))
    cluster = await start_cluster(2)
    await cluster.put_values({f"k{number}": {"n": number} for number in range(8)})
    client = importlib.import_module("pod_client").Client(base_url=cluster.url())
    models = importlib.import_module("pod_client.models")
    point = importlib.import_module("pod_client.api.rows.get_state_stores_by_store_by_key")
    many = importlib.import_module("pod_client.api.rows.post_state_get_by_store")

    def ask() -> tuple[Any, Any, Any]:
        with client:
            body = models.BatchRequest(keys=["k2", "none", "k3"])
            return (
                point.sync("words", "k1", client=client),
                point.sync("words", "none", client=client),
                many.sync("words", client=client, body=body),
            )

    row, absent, batch = await asyncio.to_thread(ask)
    assert isinstance(row, models.PointRow)
    assert (row.key, row.value, row.timestamp) == ("k1", {"n": 1}, 1000)
    assert isinstance(absent, models.Problem)
    assert absent.code == "KEY_NOT_FOUND"
    assert isinstance(batch, models.BatchAnswer)
    assert [one.key for one in batch.results] == ["k2", "none", "k3"]
    assert [str(one.status) for one in batch.results] == ["FOUND", "ABSENT", "FOUND"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client in each language, by one Java for all: loading its classes takes the most time."""
    directory = tmp_path_factory.mktemp("clients")
    (directory / "openapi.json").write_text(json.dumps(DOCUMENT))
    for language in LANGUAGES:
        plan = {
            "generatorName": language,
            "inputSpec": "openapi.json",
            "outputDir": f"made/{language}",
        }
        (directory / f"{language}.json").write_text(json.dumps(plan))
    plans = [f"{language}.json" for language in LANGUAGES]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        generate: Command = [PROGRAMS / "openapi-generator-cli", "batch", "--threads", "1", *plans]
        said = run(*generate, at=directory)
    assert "ERROR" not in said
    return directory / "made"


@pytest.mark.parametrize("language", LANGUAGES)
def test_openapi_generator_makes_a_client(made: Path, language: str) -> None:
    names = "\n".join(path.name for path in (made / language).rglob("*"))
    for model in ("PointRow", "BatchAnswer", "WindowRowPage"):
        assert model.lower() in names.lower().replace("_", "")


if TYPESCRIPT is not None:

    def test_openapi_typescript_makes_types(document: Path) -> None:
        assert TYPESCRIPT is not None
        target = document.parent / "made.d.ts"
        run(TYPESCRIPT, document, "--output", target, at=document.parent)
        assert "WindowRowPage: {" in target.read_text()
