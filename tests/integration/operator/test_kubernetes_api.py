"""The Kubernetes client against a toy API server: requests, repetitions, timeouts, refusals."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from qss_core.errors import StoreError
from qss_operator.errors import ConflictError
from qss_operator.kubernetes.api.client import KubernetesApi, connect
from qss_operator.kubernetes.api.errors import (
    AlreadyExistsError,
    ApiUnavailableError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KindNotServedError,
    NotFoundError,
    ThrottledError,
)
from qss_operator.kubernetes.api.kinds import NODES, STORES
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.api.retries import RetryLimits
from qss_testing.fakes.toy_api_server import ToyApiServer
from qss_testing.kinds import CONFIG_MAPS

CALM = RetryLimits(try_s=30.0, total_s=60.0, pause_s=0.001, pause_s_max=0.01)
QUICK = replace(CALM, try_s=1.0)  # For requests that hang.
ONCE = RetryLimits(try_s=0.3, total_s=0.3, tries_max=1)

Observed = list[tuple[str, str, str]]


@pytest.fixture
async def server() -> AsyncIterator[ToyApiServer]:
    async with ToyApiServer(token="secret") as server:
        yield server


@pytest.fixture
def observed() -> Observed:
    return []


@pytest.fixture
def patience() -> RetryLimits:
    """The client's timeouts; a test may set others."""
    return CALM


@pytest.fixture
async def api(
    server: ToyApiServer, tmp_path: Path, observed: Observed, patience: RetryLimits
) -> AsyncIterator[KubernetesApi]:
    def observe(verb: str, resource: str, code: str, seconds: float) -> None:
        assert seconds >= 0
        observed.append((verb, resource, code))

    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    async with connect(str(kubeconfig), patience=patience, on_request=observe) as api:
        yield api


def config_map(name: str, **members: object) -> Object:
    return {"metadata": {"name": name}, "data": {}, **members}


# --- What goes over the wire


async def test_objects_are_plain_dicts_in_and_out(server: ToyApiServer, api: KubernetesApi) -> None:
    made = await api.create(CONFIG_MAPS, "shop", config_map("a", data={"x": "1"}))
    assert await api.get(CONFIG_MAPS, "shop", "a") == made
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    changed = await api.replace(CONFIG_MAPS, "shop", "a", {**made, "data": {"x": "2"}})
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]
    assert server.asked[0].authorization == "Bearer secret"
    assert [one.method for one in server.asked] == ["POST", "GET", "PUT"]


async def test_an_apply_is_a_server_side_apply(server: ToyApiServer, api: KubernetesApi) -> None:
    await api.apply(CONFIG_MAPS, "shop", config_map("a"))
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("PATCH", "/api/v1/namespaces/shop/configmaps/a")
    assert asked.content_type == "application/apply-patch+yaml"
    assert asked.query == {"fieldManager": "queryablestate-operator", "force": "true"}
    assert (asked.body["apiVersion"], asked.body["kind"]) == ("v1", "ConfigMap")


async def test_an_apply_to_another_version_or_object_is_a_conflict(api: KubernetesApi) -> None:
    old = await api.apply(CONFIG_MAPS, "shop", config_map("a"))
    await api.apply(CONFIG_MAPS, "shop", config_map("a", data={"x": "1"}))
    uid, version = old["metadata"]["uid"], old["metadata"]["resourceVersion"]

    async def conflicts(metadata: dict[str, str]) -> None:
        with pytest.raises(ConflictError, match="configmaps a in the namespace shop"):
            await api.apply(CONFIG_MAPS, "shop", {"metadata": {"name": "a", **metadata}})

    await conflicts({"uid": uid, "resourceVersion": version})
    await conflicts({"uid": "another"})
    await api.delete(CONFIG_MAPS, "shop", "a", uid=uid)
    await conflicts({"uid": uid})


async def test_a_status_is_patched_by_itself(server: ToyApiServer, api: KubernetesApi) -> None:
    await api.create(STORES, "shop", {"metadata": {"name": "words"}, "spec": {"replicas": 3}})
    patch = {"status": {"ready": "3/3"}, "spec": {"replicas": 1}}
    store = await api.merge_patch(STORES, "shop", "words", patch, subresource="status")
    assert (store["spec"], store["status"]) == ({"replicas": 3}, {"ready": "3/3"})
    asked = server.asked[-1]
    assert asked.content_type == "application/merge-patch+json"
    assert asked.path.startswith("/apis/queryablestate.dev/v1alpha1/namespaces/shop/")
    assert asked.path.endswith("/queryablestatestores/words/status")


async def test_a_deletion_says_which_object_it_means(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    made = await api.create(CONFIG_MAPS, "shop", config_map("a"))
    uid = made["metadata"]["uid"]
    with pytest.raises(ConflictError):
        await api.delete(CONFIG_MAPS, "shop", "a", uid="another")
    assert await api.delete(
        CONFIG_MAPS, "shop", "a", uid=uid, propagation="Orphan", grace_period_s=0
    )
    assert server.asked[-1].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
        "propagationPolicy": "Orphan",
        "gracePeriodSeconds": 0,
    }
    assert not await api.delete(CONFIG_MAPS, "shop", "a", uid=uid)


# --- Absence


async def test_only_the_servers_word_is_an_absence(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    assert await api.find(CONFIG_MAPS, "shop", "a") is None
    with pytest.raises(NotFoundError):
        await api.get(CONFIG_MAPS, "shop", "a")
    server.unserved.add("queryablestatestores")
    with pytest.raises(KindNotServedError, match="not serve queryablestatestores of query"):
        await api.find(STORES, "shop", "words")
    server.next_bytes(404, b"<html>no such host</html>")
    with pytest.raises(KindNotServedError):
        await api.find(CONFIG_MAPS, "shop", "a")


# --- Lists


async def fill(server: ToyApiServer, api: KubernetesApi, count: int) -> None:
    for number in range(count):
        body = config_map(f"m{number:04}")
        body["metadata"]["labels"] = {"even": str(number % 2 == 0)}
        await api.create(CONFIG_MAPS, "shop" if number % 3 else "bar", body)
    server.asked.clear()


def names(objects: list[Object]) -> list[str]:
    return sorted(one["metadata"]["name"] for one in objects)


async def test_a_list_is_read_by_pages(server: ToyApiServer, api: KubernetesApi) -> None:
    await fill(server, api, 600)
    assert names(await api.list(CONFIG_MAPS, None)) == [f"m{number:04}" for number in range(600)]
    assert [one.query.get("continue") for one in server.asked] == [None, "250", "500"]
    selected = await api.list(CONFIG_MAPS, "bar", "even=True")
    assert names(selected) == [f"m{number:04}" for number in range(0, 600, 6)]
    assert await api.list(NODES, None) == []


async def test_a_page_that_expired_starts_the_list_over_once(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    await fill(server, api, 300)
    server.next_answer(410, "Expired", word="continue=250")
    assert len(await api.list(CONFIG_MAPS, None)) == 300
    assert len(server.asked) == 4
    server.next_answer(410, "Expired", word="continue=250", times=2)
    with pytest.raises(GoneError):
        await api.list(CONFIG_MAPS, None)


# --- Refusals


async def test_what_is_invalid_is_not_sent_again(server: ToyApiServer, api: KubernetesApi) -> None:
    cause = {"reason": "FieldValueInvalid", "message": "must shrink", "field": "spec.storage.size"}
    server.next_answer(422, "Invalid", "the store is invalid", times=9, causes=[cause])
    with pytest.raises(InvalidError, match="the store is invalid") as caught:
        await api.apply(STORES, "shop", {"metadata": {"name": "words"}})
    assert [(one.field, one.message) for one in caught.value.causes] == [
        ("spec.storage.size", "must shrink")
    ]
    assert len(server.asked) == 1


async def test_a_missing_permission_names_verb_resource_and_namespace(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    message = (
        'pods is forbidden: User "system:serviceaccount:qss:operator" cannot list resource '
        '"pods" in API group "" in the namespace "shop"'
    )
    server.next_answer(403, "Forbidden", message, times=9)
    with pytest.raises(ForbiddenError, match="may not list pods in the namespace shop") as caught:
        await api.list(CONFIG_MAPS, "shop")
    assert caught.value.is_permission
    assert len(server.asked) == 1


# --- Repetition


@pytest.mark.parametrize("patience", [QUICK])
async def test_reads_go_again_after_every_passing_failure(
    server: ToyApiServer, api: KubernetesApi, observed: Observed
) -> None:
    await api.create(CONFIG_MAPS, "shop", config_map("a"))
    observed.clear()
    server.next_answer(503, "ServiceUnavailable")
    server.next_bytes(502, b"<html>bad gateway</html>")
    server.next_is_cut()
    server.next_is_cut(after_bytes=b'{"metadata":')
    server.next_bytes(200, b'{"metadata":')
    server.next_hangs()
    assert (await api.get(CONFIG_MAPS, "shop", "a"))["metadata"]["name"] == "a"
    codes = [code for _, _, code in observed]
    assert codes == ["503", "502", "unreachable", "unreachable", "200", "timeout", "200"]
    assert {(verb, resource) for verb, resource, _ in observed} == {("get", "configmaps")}


async def test_a_failure_that_stays_is_reported_in_the_end(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    server.next_answer(500, "InternalError", "etcdserver: no leader", times=99)
    with pytest.raises(ApiUnavailableError, match="etcdserver: no leader"):
        await api.get(CONFIG_MAPS, "shop", "a")
    assert len(server.asked) == CALM.tries_max


@pytest.mark.parametrize("beginning", [b"", b'{"metadata": '])
async def test_bytes_that_come_too_slowly_are_not_waited_for(
    server: ToyApiServer, tmp_path: Path, beginning: bytes
) -> None:
    kubeconfig = server.write_kubeconfig(tmp_path / "once")
    server.next_hangs(times=9, after_bytes=beginning)
    async with asyncio.timeout(60), connect(str(kubeconfig), patience=ONCE) as api:
        with pytest.raises(ApiUnavailableError, match=r"no answer within 0\.3 s"):
            await api.get(CONFIG_MAPS, "shop", "a")


async def test_a_server_that_asks_to_wait_is_not_asked_before(
    server: ToyApiServer, tmp_path: Path
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    async with connect(str(kubeconfig)) as api:
        api.sleep = sleep
        server.next_answer(429, "TooManyRequests", headers={"Retry-After": "3"})
        server.next_answer(503, "ServerTimeout", retryAfterSeconds=5)
        # A request that may not be sent twice is repeated, too: the server has not carried it out.
        server.next_answer(429, "TooManyRequests", headers={"Retry-After": "2"})
        assert await api.list(CONFIG_MAPS, "shop") == []
        server.next_answer(429, "TooManyRequests", headers={"Retry-After": "100"})
        with pytest.raises(ThrottledError):
            await api.list(CONFIG_MAPS, "shop")
    assert len(pauses) == 3
    for pause, asked in zip(pauses, [3, 5, 2], strict=True):
        assert asked <= pause <= asked + 1


async def test_a_patch_without_a_version_is_not_sent_twice(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    made = await api.create(CONFIG_MAPS, "shop", config_map("a"))
    server.asked.clear()
    server.next_answer_is_lost("PATCH")
    with pytest.raises(ApiUnavailableError):
        await api.merge_patch(CONFIG_MAPS, "shop", "a", {"data": {"x": "1"}})
    assert len(server.asked) == 1
    server.next_answer(429, "TooManyRequests", word="PATCH")
    await api.merge_patch(CONFIG_MAPS, "shop", "a", {"data": {"x": "2"}})
    server.next_is_cut("PATCH")
    version = {"resourceVersion": made["metadata"]["resourceVersion"]}
    with pytest.raises(ConflictError):
        await api.merge_patch(CONFIG_MAPS, "shop", "a", {"metadata": version, "data": {}})


async def test_a_creation_that_went_again_may_be_its_own_obstacle(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    server.next_answer_is_lost("POST")
    with pytest.raises(AlreadyExistsError) as caught:
        await api.create(CONFIG_MAPS, "shop", config_map("a"))
    assert caught.value.may_be_own
    with pytest.raises(AlreadyExistsError) as caught:
        await api.create(CONFIG_MAPS, "shop", config_map("a"))
    assert not caught.value.may_be_own
    server.next_is_cut("POST")
    with pytest.raises(ApiUnavailableError):
        await api.create(CONFIG_MAPS, "shop", {"metadata": {"generateName": "a-"}})


async def test_a_deletion_that_went_again_finds_nothing_and_is_content(
    server: ToyApiServer, api: KubernetesApi
) -> None:
    made = await api.create(CONFIG_MAPS, "shop", config_map("a"))
    server.next_answer_is_lost("DELETE")
    assert not await api.delete(CONFIG_MAPS, "shop", "a", uid=made["metadata"]["uid"])
    server.next_is_cut("DELETE")
    with pytest.raises(ApiUnavailableError):
        await api.delete(CONFIG_MAPS, "shop", "a")


async def test_a_server_that_comes_back_is_found_again(
    server: ToyApiServer, api: KubernetesApi, observed: Observed
) -> None:
    await api.create(CONFIG_MAPS, "shop", config_map("a"))
    await server.stop_listening()
    with pytest.raises(ApiUnavailableError, match="not reached") as caught:
        await api.merge_patch(CONFIG_MAPS, "shop", "a", {"data": {}})
    assert caught.value.is_untouched
    # The request was never sent, so any request may be repeated.
    assert len([one for one in observed if one[0] == "patch"]) == CALM.tries_max
    await server.listen()
    assert await api.find(CONFIG_MAPS, "shop", "a") is not None


async def test_an_error_shows_its_code(server: ToyApiServer, api: KubernetesApi) -> None:
    server.next_answer(400, "BadRequest", "no such field")
    with pytest.raises(StoreError, match=r"API_REFUSED.*no such field \(400\)"):
        await api.get(CONFIG_MAPS, "shop", "a")
