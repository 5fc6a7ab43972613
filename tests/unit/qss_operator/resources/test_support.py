"""The local cluster refuses unsupported fields by name."""

from typing import Any

import pytest

from qss_core.spec.resource import StoreSpec, decode_spec
from qss_operator.errors import UnsupportedError
from qss_operator.resources.support import refuse_unsupported_locally, supported_spec

ROWS = {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "json"}}
NO_ACCESS_CONTROL = {"authentication": "None"}


def spec_of(rows: dict[str, Any] | None = None, **members: Any) -> StoreSpec:
    spec = {"store": ROWS | (rows or {}), "partitions": 12, "access": NO_ACCESS_CONTROL}
    return decode_spec(spec | members)


def refusal_of(spec: StoreSpec, old: StoreSpec | None = None) -> str:
    with pytest.raises(UnsupportedError) as caught:
        refuse_unsupported_locally(spec, old)
    return caught.value.message


def test_a_plain_store_is_taken() -> None:
    refuse_unsupported_locally(spec_of())
    refuse_unsupported_locally(spec_of({"partitioner": "Explicit"}), spec_of())
    refuse_unsupported_locally(spec_of(changelog={"retention": "1h"}, storage={"size": "1Gi"}))


@pytest.mark.parametrize(
    "rows",
    [
        {},
        {"type": "Window", "window": {}},
        {"type": "Session", "session": {}},
        {"type": "Versioned", "versioned": {}},
    ],
)
def test_read_uncommitted_is_taken_and_may_change(rows: dict[str, Any]) -> None:
    spec = spec_of(rows, isolation="READ_UNCOMMITTED")
    refuse_unsupported_locally(spec, spec_of(rows))
    refuse_unsupported_locally(spec_of(rows), spec)
    assert supported_spec(spec) == (spec, [])


def test_what_pages_of_browsers_get_is_taken() -> None:
    access = {"console": False, "allowedOrigins": ["https://shop.example"]}
    refuse_unsupported_locally(spec_of(access=NO_ACCESS_CONTROL | access))


def test_versions_are_taken() -> None:
    refuse_unsupported_locally(spec_of({"type": "Versioned", "versioned": {}}))


def test_a_users_own_type_is_taken() -> None:
    spec = spec_of({"type": "Custom", "custom": {"name": "x"}}, isolation="READ_UNCOMMITTED")
    refuse_unsupported_locally(spec)
    assert supported_spec(spec) == (spec, [])


@pytest.mark.parametrize("store_format", ["Plain", "PlainWithHeaders", None])
@pytest.mark.parametrize(
    "rows", [{"type": "Window", "window": {}}, {"type": "Session", "session": {}}]
)
def test_windows_and_sessions_are_taken(rows: dict[str, Any], store_format: str | None) -> None:
    spec = spec_of(rows | ({"format": store_format} if store_format else {}))
    refuse_unsupported_locally(spec)
    assert supported_spec(spec_of(rows | {"format": "Plain"}))[1] == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            spec_of(rebalance={"acceptableRecoveryLagBytes": 3}),
            "spec.rebalance.acceptableRecoveryLagBytes",
        ),
        (spec_of(replicas=0), "spec.replicas"),
        (spec_of(access={"authentication": "ServiceAccount"}), "spec.access.authentication"),
        (spec_of(access={**NO_ACCESS_CONTROL, "tlsSecretName": "x"}), "spec.access.tlsSecretName"),
        (spec_of(topology={"spreadKey": "rack"}), "spec.topology.spreadKey"),
        (spec_of(storage={"storageClassName": "fast"}), "spec.storage.storageClassName"),
        (spec_of(storage={"whenDeleted": "Delete"}), "spec.storage.whenDeleted"),
        (spec_of(pod={"image": "x"}), "spec.pod.image"),
        (spec_of(pod={"env": [{"name": "A"}]}), "spec.pod.env"),
        (spec_of(pod={"resources": {"limits": {"cpu": 1}}}), "spec.pod.resources"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_still_to_come_is_refused_by_name(spec: StoreSpec, field: str) -> None:
    message = refusal_of(spec)
    assert message.startswith(f"{field}: ")
    assert len(message.splitlines()) == 1


def test_a_local_store_must_say_that_everybody_may_call_it() -> None:
    message = refusal_of(spec_of(access={}))
    assert "A local store must say access: {authentication: None}" in message


def test_every_refused_field_is_named_at_once() -> None:
    rebalance = {"acceptableRecoveryLagBytes": 3}
    message = refusal_of(spec_of(rebalance=rebalance, access={}, pod={"image": "x"}))
    assert [line.partition(":")[0] for line in message.splitlines()] == [
        "spec.rebalance.acceptableRecoveryLagBytes",
        "spec.access.authentication",
        "spec.pod.image",
    ]


def test_other_numbers_of_pods_and_standbys_are_taken() -> None:
    refuse_unsupported_locally(spec_of(replicas=2, standbys=0), spec_of(replicas=4, standbys=2))
    rebalance = {"maxWarmupReplicas": 3, "paused": True}
    refuse_unsupported_locally(spec_of(replicas=4, rebalance=rebalance), spec_of(replicas=2))


def test_a_format_that_holds_less_is_refused_unless_the_loss_is_allowed() -> None:
    message = refusal_of(spec_of({"format": "Plain"}), spec_of())
    assert message == (
        "spec.store.format: the rows stay Timestamped: Plain cannot hold their timestamps. To give "
        "those up, set spec.store.allowLossyMigration: true; to keep them, set spec.store.format: "
        "Timestamped"
    )
    allowed = {"format": "Plain", "allowLossyMigration": True}
    refuse_unsupported_locally(spec_of(allowed), spec_of())


def test_a_format_that_holds_more_is_taken() -> None:
    refuse_unsupported_locally(spec_of({"format": "TimestampedWithHeaders"}), spec_of())


def test_writing_the_default_format_out_is_no_change() -> None:
    refuse_unsupported_locally(spec_of({"format": "Timestamped"}), spec_of())
