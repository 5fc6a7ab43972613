"""The spec of a QueryableStateStore, with the fields, defaults and bounds of the CRD file.

A resource is validated against the CRD; this module converts it to values. A test compares the two.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from qss_core.errors import MalformedRequestError
from qss_core.formats.values import Format
from qss_core.model import (
    PARTITIONS_MAX,
    Isolation,
    Partitioner,
    StoreDefinition,
    StoreId,
    StoreName,
    StoreSettings,
    StoreType,
    Wire,
)
from qss_core.quantities import (
    parse_duration_ms,
    parse_quantity_bytes,
)
from qss_core.spec.pod import PodSpec
from qss_core.spec.values import (
    UNLIMITED,
    AnnotationValues,
    Cidr,
    Duration,
    LabelKey,
    LabelValue,
    LabelValues,
    Name63,
    Name253,
    Origin,
    PositiveSize,
    Serde,
    Size,
    SizeOrUnlimited,
)

POD_ORDINALS_MAX = 512


class Authentication(StrEnum):
    """The check of callers: tokens of service accounts, or none."""

    SERVICE_ACCOUNT = "ServiceAccount"
    NONE = "None"


class WhenDeleted(StrEnum):
    """Whether the volumes of a deleted store are kept."""

    RETAIN = "Retain"
    DELETE = "Delete"


class SerdeSpec(Wire, frozen=True, kw_only=True):
    """The serde of keys or values."""

    serde: Serde


class WindowSpec(Wire, frozen=True, kw_only=True):
    size: Duration = "1h"
    retention: Duration = "168h"
    retain_duplicates: bool = False


class SessionSpec(Wire, frozen=True, kw_only=True):
    gap: Duration = "30m"
    retention: Duration = "168h"


class VersionedSpec(Wire, frozen=True, kw_only=True):
    history_retention: Duration = "24h"


class CustomSpec(Wire, frozen=True, kw_only=True):
    name: Name63
    options: Annotated[
        dict[str, Annotated[str, msgspec.Meta(max_length=1024)]], msgspec.Meta(max_length=32)
    ] = msgspec.field(default_factory=dict)


class RowsSpec(Wire, frozen=True, kw_only=True):
    """`spec.store`: the type and encoding of the rows."""

    type: StoreType
    key: SerdeSpec
    value: SerdeSpec
    format: Format | None = None
    allow_lossy_migration: bool = False
    partitioner: Partitioner = Partitioner.MURMUR2
    window: WindowSpec | None = None
    session: SessionSpec | None = None
    versioned: VersionedSpec | None = None
    custom: CustomSpec | None = None


class ChangelogSpec(Wire, frozen=True, kw_only=True):
    """The part of the changelog that a replica keeps."""

    retention: Duration = "24h"
    retention_bytes: Size = "256Mi"


class RebalanceSpec(Wire, frozen=True, kw_only=True):
    """The times of failure detection, and the limits of moves."""

    acceptable_recovery_lag_bytes: Size = "64Mi"
    max_warmup_replicas: Annotated[int, msgspec.Meta(ge=1, le=64)] = 2
    failover_after: Duration = "10s"
    lease_duration: Duration = "5s"
    replica_timeout: Duration = "10s"
    replace_after: Duration = "10m"
    snapshot_bytes_per_second: PositiveSize = "64Mi"
    paused: bool = False


class TopologySpec(Wire, frozen=True, kw_only=True):
    """The label of nodes by which the replicas of a partition are separated."""

    spread_key: LabelKey = "topology.kubernetes.io/zone"


class StorageSpec(Wire, frozen=True, kw_only=True):
    """The volume of each pod."""

    size: PositiveSize = "10Gi"
    storage_class_name: Name253 | None = None
    when_deleted: WhenDeleted = WhenDeleted.RETAIN


class LabelRequirementSpec(Wire, frozen=True, kw_only=True):
    """One condition on labels, as in Kubernetes selectors."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[tuple[LabelValue, ...], msgspec.Meta(max_length=32)] | None = None


class LabelSelectorSpec(Wire, frozen=True, kw_only=True):
    """Selects objects by labels; an empty selector selects all."""

    match_labels: LabelValues | None = None
    match_expressions: (
        Annotated[tuple[LabelRequirementSpec, ...], msgspec.Meta(max_length=16)] | None
    ) = None


class IpBlockSpec(Wire, frozen=True, kw_only=True):
    cidr: Cidr
    except_: Annotated[tuple[Cidr, ...], msgspec.Meta(max_length=16)] | None = msgspec.field(
        default=None, name="except"
    )


class PeerSpec(Wire, frozen=True, kw_only=True):
    """Admitted callers, as in a NetworkPolicy's `from`."""

    pod_selector: LabelSelectorSpec | None = None
    namespace_selector: LabelSelectorSpec | None = None
    ip_block: IpBlockSpec | None = None


# The variables of a pod that switch the console off, and that list origins with commas between.
CONSOLE = "QSS_CONSOLE"
ALLOWED_ORIGINS = "QSS_ALLOWED_ORIGINS"
Peers = Annotated[tuple[PeerSpec, ...], msgspec.Meta(max_length=16)]


class AccessSpec(Wire, frozen=True, kw_only=True):
    """The callers that may query and write; without peers every pod may."""

    authentication: Authentication = Authentication.SERVICE_ACCOUNT
    common_audience: bool = False
    console: bool = True
    allowed_origins: Annotated[tuple[Origin, ...], msgspec.Meta(max_length=16)] = ()
    tls_secret_name: Name253 | None = None
    query_from: Peers = ()
    metrics_from: Peers = ()
    service_annotations: AnnotationValues = msgspec.field(default_factory=dict)

    @property
    def checks_callers(self) -> bool:
        """Whether the pods ask callers for tokens."""
        return self.authentication is Authentication.SERVICE_ACCOUNT


_STANDBYS_UNSAID = 1


class StoreSpec(Wire, frozen=True, kw_only=True):
    store: RowsSpec
    partitions: Annotated[int, msgspec.Meta(ge=1, le=PARTITIONS_MAX)]
    replicas: Annotated[int, msgspec.Meta(ge=0, le=POD_ORDINALS_MAX)] = 3
    standbys: Annotated[int, msgspec.Meta(ge=0, le=POD_ORDINALS_MAX - 1)] | None = None
    isolation: Isolation = Isolation.READ_COMMITTED
    uncommitted_max_bytes: SizeOrUnlimited = "64Mi"
    staged_bytes_max: PositiveSize | None = None
    changelog: ChangelogSpec = ChangelogSpec()
    rebalance: RebalanceSpec = RebalanceSpec()
    topology: TopologySpec = TopologySpec()
    storage: StorageSpec = StorageSpec()
    access: AccessSpec = AccessSpec()
    pod: PodSpec = PodSpec()

    @property
    def effective_standbys(self) -> int:
        """The number of standbys that fit: every replica of a partition needs its own pod.

        It is one where the resource names none.
        """
        wanted = _STANDBYS_UNSAID if self.standbys is None else self.standbys
        return max(0, min(wanted, self.replicas - 1))

    @property
    def format(self) -> Format:
        """The format of stored rows."""
        return self.store.format or default_format(self.store.type)


_WITH_HEADERS = (Format.Plain, Format.Timestamped, Format.TimestampedWithHeaders)
_FORMATS: dict[StoreType, tuple[Format, ...]] = {
    StoreType.KEY_VALUE: _WITH_HEADERS,
    StoreType.WINDOW: (*_WITH_HEADERS, Format.PlainWithHeaders),
    StoreType.SESSION: (Format.Plain, Format.PlainWithHeaders),
    StoreType.VERSIONED: (Format.Plain,),
    StoreType.CUSTOM: _WITH_HEADERS,
}


def formats_of(store_type: StoreType) -> tuple[Format, ...]:
    return _FORMATS[store_type]


def default_format(store_type: StoreType) -> Format:
    """The format of a store whose resource names none."""
    is_timestamped = store_type in (StoreType.KEY_VALUE, StoreType.WINDOW)
    return Format.Timestamped if is_timestamped else Format.Plain


def decode_spec(spec: dict[str, Any]) -> StoreSpec:
    """Decodes the spec of a validated resource, and fills in defaults."""
    try:
        return msgspec.convert(spec, StoreSpec)
    except msgspec.ValidationError as error:
        raise MalformedRequestError(f"spec: {error}") from error


def definition_of(name: StoreName, store_id: StoreId, spec: StoreSpec) -> StoreDefinition:
    """The definition of the store for its pods.

    Raises MalformedRequestError if the block of the store's type is missing, like the CRD's rule.
    """
    return StoreDefinition(
        name=name,
        store_id=store_id,
        type=spec.store.type,
        format=spec.format.value,
        key_serde=spec.store.key.serde,
        value_serde=spec.store.value.serde,
        partitioner=spec.store.partitioner,
        partitions=spec.partitions,
        isolation=spec.isolation,
        **_times_of(spec.store),
        **_custom_of(spec.store),
    )


def _custom_of(rows: RowsSpec) -> dict[str, Any]:
    """The members of a definition that describe a custom type."""
    match rows.type, rows.custom:
        case StoreType.CUSTOM, CustomSpec() as custom:
            options = tuple(sorted(custom.options.items()))
            return {"custom_name": custom.name, "custom_options": options}
        case StoreType.CUSTOM, None:
            raise MalformedRequestError(f"a store of type {rows.type} needs the block custom")
    return {}


def _times_of(rows: RowsSpec) -> dict[str, Any]:
    """The members of a definition that describe times and retention."""
    match rows.type, rows.window, rows.session, rows.versioned:
        case StoreType.WINDOW, WindowSpec() as window, _, _:
            return {
                "window_size_ms": parse_duration_ms(window.size),
                "retention_ms": parse_duration_ms(window.retention),
                "retain_duplicates": window.retain_duplicates,
            }
        case StoreType.SESSION, _, SessionSpec() as session, _:
            return {
                "session_gap_ms": parse_duration_ms(session.gap),
                "retention_ms": parse_duration_ms(session.retention),
            }
        case StoreType.VERSIONED, _, _, VersionedSpec() as versioned:
            return {"history_retention_ms": parse_duration_ms(versioned.history_retention)}
        case ((StoreType.WINDOW | StoreType.SESSION | StoreType.VERSIONED), _, _, _):
            block = rows.type.value.lower()
            raise MalformedRequestError(f"a store of type {rows.type} needs the block {block}")
    return {}


def settings_of(spec: StoreSpec) -> StoreSettings:
    uncommitted, staged = spec.uncommitted_max_bytes, spec.staged_bytes_max
    return StoreSettings(
        uncommitted_bytes_max=UNLIMITED
        if uncommitted in (UNLIMITED, str(UNLIMITED))
        else parse_quantity_bytes(uncommitted),
        staged_bytes_max=None if staged is None else parse_quantity_bytes(staged),
        changelog_retention_ms=parse_duration_ms(spec.changelog.retention),
        changelog_retention_bytes=parse_quantity_bytes(spec.changelog.retention_bytes),
        lease_ms=parse_duration_ms(spec.rebalance.lease_duration),
        replica_timeout_ms=parse_duration_ms(spec.rebalance.replica_timeout),
        snapshot_bytes_per_s=parse_quantity_bytes(spec.rebalance.snapshot_bytes_per_second),
    )
