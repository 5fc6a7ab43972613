"""`spec.pod` of the resource: additions to the pods."""

from typing import Annotated, Any, Literal

import msgspec

from qss_core.model import Wire
from qss_core.spec.values import (
    AnnotationValues,
    Image,
    LabelKey,
    LabelValues,
    LongText,
    Name253,
    Quantities,
)

Id = Annotated[int, msgspec.Meta(ge=1, le=4_294_967_294)]


class ResourcesSpec(Wire, frozen=True, kw_only=True):
    """Compute resources of the store container."""

    limits: Quantities = msgspec.field(default_factory=dict)
    requests: Quantities = msgspec.field(default_factory=dict)


class TolerationSpec(Wire, frozen=True, kw_only=True):
    key: Annotated[str, msgspec.Meta(max_length=317)] | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: Annotated[str, msgspec.Meta(max_length=63)] | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Annotated[int, msgspec.Meta(ge=0, le=31_536_000)] | None = None


class EnvSpec(Wire, frozen=True, kw_only=True):
    name: Annotated[
        str, msgspec.Meta(min_length=1, max_length=253, pattern="^[-._A-Za-z][-._A-Za-z0-9]*$")
    ]
    value: LongText | None = None
    value_from: Annotated[dict[str, Any], msgspec.Meta(max_length=1)] | None = None


class SecretNameSpec(Wire, frozen=True, kw_only=True):
    """A Secret in the store's namespace."""

    name: Name253


class SpreadSpec(Wire, frozen=True, kw_only=True):
    """A rule that spreads the store's pods over nodes, zones or other places of one kind."""

    max_skew: Annotated[int, msgspec.Meta(ge=1, le=512)]
    topology_key: LabelKey
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: Annotated[int, msgspec.Meta(ge=1, le=512)] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None


class SecurityContextSpec(Wire, frozen=True, kw_only=True):
    """The user and groups of the pods; the cluster decides about absent members."""

    run_as_user: Id | None = None
    run_as_group: Id | None = None
    fs_group: Id | None = None
    fs_group_change_policy: Literal["OnRootMismatch", "Always"] | None = None
    supplemental_groups: Annotated[tuple[Id, ...], msgspec.Meta(max_length=16)] | None = None


class PodSpec(Wire, frozen=True, kw_only=True):
    image: Image | None = None
    image_pull_secrets: Annotated[tuple[SecretNameSpec, ...], msgspec.Meta(max_length=16)] = ()
    resources: ResourcesSpec = ResourcesSpec()
    node_selector: LabelValues = msgspec.field(default_factory=dict)
    tolerations: Annotated[tuple[TolerationSpec, ...], msgspec.Meta(max_length=32)] = ()
    affinity: Annotated[dict[str, Any], msgspec.Meta(max_length=3)] = msgspec.field(
        default_factory=dict
    )
    priority_class_name: Name253 | None = None
    labels: LabelValues = msgspec.field(default_factory=dict)
    annotations: AnnotationValues = msgspec.field(default_factory=dict)
    topology_spread_constraints: (
        Annotated[tuple[SpreadSpec, ...], msgspec.Meta(max_length=16)] | None
    ) = None
    termination_grace_period_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 60
    security_context: SecurityContextSpec | None = None
    env: Annotated[tuple[EnvSpec, ...], msgspec.Meta(max_length=64)] = ()
