"""The table of limits says what the schema of the resource and the code say."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from qss_core.model import PARTITIONS_MAX
from qss_core.spec.resource import POD_ORDINALS_MAX, RebalanceSpec
from qss_operator.kubernetes.access.review_accounts import ALL_MAX, NAMESPACE_MAX
from qss_operator.kubernetes.events.event_limits import EventLimits
from qss_operator.kubernetes.rounds import ROUND_S
from qss_operator.kubernetes.settings import parse_settings
from qss_operator.planning.placement.shares import OVERLOAD, POD_REPLICAS_MAX
from qss_operator.pod_answers import REPORT_BYTES_MAX, STORE_BYTES_MAX
from qss_store.replicas.volume.volume_watch import RESERVE_BYTES

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "operator" / "docs" / "kubernetes.md"
CRD: dict[str, Any] = yaml.safe_load((ROOT / "crds" / "queryablestatestores.yaml").read_text())
SCHEMA: dict[str, Any] = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SPEC: dict[str, Any] = SCHEMA["properties"]["spec"]["properties"]
STATUS: dict[str, Any] = SCHEMA["properties"]["status"]["properties"]
REBALANCE: dict[str, Any] = SPEC["rebalance"]["properties"]
DEFAULTS = RebalanceSpec()


def limits() -> dict[str, str]:
    """The value of each limit of the table, by its first words."""
    section = PAGE.read_text().split("\n## Limits\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", section, re.MULTILINE)
    return {name.split(" (")[0]: value for name, value in rows if name != "limit"}


def mebibytes(size: int) -> str:
    assert size % 2**20 == 0
    return f"{size // 2**20}Mi"


def rules(schema: dict[str, Any]) -> str:
    return " ".join(rule["rule"] for rule in schema["x-kubernetes-validations"])


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("partitions", f"{PARTITIONS_MAX}"),
        ("partitions", f"{SPEC['partitions']['maximum']}"),
        ("pods", f"{SPEC['replicas']['maximum']}"),
        ("pods", f"{POD_ORDINALS_MAX}"),
        ("standbys of a partition", f"{SPEC['standbys']['maximum']}"),
        ("replicas of a pod, on average", f"{POD_REPLICAS_MAX}"),
        (
            "moves at once",
            f"{REBALANCE['maxWarmupReplicas']['minimum']} to "
            f"{REBALANCE['maxWarmupReplicas']['maximum']}, by default "
            f"{DEFAULTS.max_warmup_replicas}",
        ),
        (
            "copies, bytes a second of a pod",
            f"above 0, by default {DEFAULTS.snapshot_bytes_per_second}",
        ),
        (
            "waits of `rebalance`",
            f"at least 1s, by default {DEFAULTS.failover_after}, {DEFAULTS.lease_duration}, "
            f"{DEFAULTS.replica_timeout}, {DEFAULTS.replace_after}",
        ),
        (
            "size of a volume",
            f"may grow, by default {SPEC['storage']['properties']['size']['default']}",
        ),
        ("free bytes that a pod keeps back", mebibytes(RESERVE_BYTES)),
        ("share of a pod of a small zone", f"{OVERLOAD} times the even share"),
        (
            "replicas in `status.moves.replicas`",
            f"{STATUS['moves']['properties']['replicas']['maxItems']}",
        ),
        ("events of a store in a minute", f"{EventLimits().a_minute}"),
        (
            "time in which an event counts as the same",
            f"{EventLimits().same_within_s / 60:.0f} m",
        ),
        ("rounds at once", f"{parse_settings(['--store-image=a'], {}).rounds_max}"),
        ("time of a round", f"{ROUND_S:.0f} s"),
        (
            "bytes of a pod's report, of all reports of a store",
            f"{mebibytes(REPORT_BYTES_MAX)}, {mebibytes(STORE_BYTES_MAX)}",
        ),
        (
            "accounts of stores that check callers, of a namespace, of all",
            f"{NAMESPACE_MAX}, {ALL_MAX}",
        ),
    ],
)
def test_the_page_has_the_limit_of_the_code(limit: str, value: str) -> None:
    assert limits()[limit] == value


def test_the_rules_of_the_resource_have_the_limits_of_the_page() -> None:
    of_a_pod, of_a_name = "replicas of a pod, on average", "characters of a store's name"
    assert f"<= {limits()[of_a_pod]} *" in rules(SCHEMA["properties"]["spec"])
    assert f"size(self.metadata.name) <= {limits()[of_a_name]}" in rules(SCHEMA)
    for wait in ("failoverAfter", "leaseDuration", "replicaTimeout", "replaceAfter"):
        assert "duration(self) >= duration('1s')" in rules(REBALANCE[wait])
    message = STATUS["conditions"]["items"]["properties"]["message"]
    assert message["maxLength"] >= int(limits()["characters of a condition's message"])
