"""Makes the template of a store's pods for its StatefulSet."""

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from qss_core.spec.pod import PodSpec
from qss_core.spec.resource import ALLOWED_ORIGINS, CONSOLE, StoreSpec
from qss_operator.kubernetes.access.audiences import CONTAINER, PEERS, TAKES, PodAudiences, own_of
from qss_operator.kubernetes.names import (
    ACCOUNT_ANNOTATION,
    CHANGELOG_PORT,
    OPS_PORT,
    ORDINAL_LABEL,
    QUERY_PORT,
    TEMPLATE_ANNOTATION,
    VOLUME,
    StoreNames,
)

Object = dict[str, Any]

DEFAULT_USER = 10001
_TOKENS = "/var/run/secrets/queryablestate.dev"
_TLS = "/etc/queryablestate/tls"
_DEFAULT_REQUESTS = {"cpu": "100m", "memory": "768Mi"}
# The longest and the shortest time, in seconds, that a pod serves on when it is ended: a handover
# takes a fraction of a second, and nodes take the pod out of its Services within one or two.
_LEAVE_MAX_S, _LEAVE_MIN_S = 10.0, 2.0
_DEFAULT_LIMITS = {"memory": "1Gi"}  # `make siege` tests a pod within this limit.


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaults:
    """The operator's settings for all pods that it creates."""

    image: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    user: int | None = DEFAULT_USER  # None: the cluster chooses, as OpenShift does.
    operator_service_account: str = ""  # NAMESPACE/NAME, which may give pods their assignment.
    operator_release: str = ""  # The label app.kubernetes.io/instance of the operator's pods.
    token_audience: str = "queryablestate.dev"  # The common audience, for stores that allow it.
    log_format: str = "json"


def pod_template(
    names: StoreNames,
    spec: StoreSpec,
    defaults: PodDefaults,
    account_uid: str = "",
    audiences: PodAudiences | None = None,
    resource_uid: str = "",
) -> Object:
    """The template, with its own hash in an annotation: a pod of another hash is out of date.

    `account_uid` is that of the pods' ServiceAccount: when the account is deleted and made again,
    the tokens of running pods are void, and only pods that start get others. `audiences`: by
    default the store's own.
    """
    given = spec.pod
    account = {ACCOUNT_ANNOTATION: account_uid} if spec.access.checks_callers else {}
    template: Object = {
        "metadata": {
            "labels": {**given.labels, **names.labels()},
            "annotations": {
                "kubectl.kubernetes.io/default-container": CONTAINER,
                **given.annotations,
                **account,
            },
        },
        "spec": _pod_spec(names, spec, defaults, audiences or own_of(names), resource_uid),
    }
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:16]
    template["metadata"]["annotations"][TEMPLATE_ANNOTATION] = digest
    return template


def template_hash(template: Object) -> str:
    """The hash that a template carries."""
    digest: str = template["metadata"]["annotations"][TEMPLATE_ANNOTATION]
    return digest


def _pod_spec(
    names: StoreNames,
    spec: StoreSpec,
    defaults: PodDefaults,
    audiences: PodAudiences,
    resource_uid: str,
) -> Object:
    given = spec.pod
    made: Object = {
        "serviceAccountName": names.service_account,
        "automountServiceAccountToken": spec.access.checks_callers,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": given.termination_grace_period_seconds,
        "securityContext": _security_context(given, defaults),
        "topologySpreadConstraints": _spread(names, spec),
        "containers": [_container(names, spec, defaults, audiences, resource_uid)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}, *_volumes(spec, audiences)],
    }
    secrets = dict.fromkeys(
        (*defaults.image_pull_secrets, *(secret.name for secret in given.image_pull_secrets))
    )
    if secrets:
        made["imagePullSecrets"] = [{"name": name} for name in secrets]
    if given.node_selector:
        made["nodeSelector"] = given.node_selector
    if given.tolerations:
        made["tolerations"] = [_without_none(one) for one in given.tolerations]
    if given.affinity:
        made["affinity"] = given.affinity
    if given.priority_class_name is not None:
        made["priorityClassName"] = given.priority_class_name
    return made


def _security_context(given: PodSpec, defaults: PodDefaults) -> Object:
    chosen: Object = {}
    if given.security_context is not None:
        chosen = _without_none(given.security_context)
    elif (user := defaults.user) is not None:
        chosen = {
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "fsGroupChangePolicy": "OnRootMismatch",
        }
    return {"runAsNonRoot": True, **chosen, "seccompProfile": {"type": "RuntimeDefault"}}


def _spread(names: StoreNames, spec: StoreSpec) -> list[Object]:
    selected = {"labelSelector": {"matchLabels": names.labels()}}
    if spec.pod.topology_spread_constraints is not None:
        return [{**_without_none(one), **selected} for one in spec.pod.topology_spread_constraints]
    return [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", **selected}
        for key in dict.fromkeys((spec.topology.spread_key, "kubernetes.io/hostname"))
    ]


def _leaving(spec: StoreSpec) -> list[Object]:
    """The longest and the shortest time for which a pod that is ended serves on."""
    given = {one.name for one in spec.pod.env}
    limits = {"QSS_LEAVE_MAX_S": _LEAVE_MAX_S, "QSS_LEAVE_MIN_S": _LEAVE_MIN_S}
    half_s = spec.pod.termination_grace_period_seconds / 2
    return [
        {"name": name, "value": f"{min(seconds, half_s):g}"}
        for name, seconds in limits.items()
        if name not in given
    ]


def _pages(spec: StoreSpec) -> list[Object]:
    """Switches the console off and lists origins; a store with neither keeps its template."""
    given = {one.name for one in spec.pod.env}
    said = {
        CONSOLE: "" if spec.access.console else "0",
        ALLOWED_ORIGINS: ",".join(spec.access.allowed_origins),
    }
    return [
        {"name": name, "value": value}
        for name, value in said.items()
        if value and name not in given
    ]


def _container(
    names: StoreNames,
    spec: StoreSpec,
    defaults: PodDefaults,
    audiences: PodAudiences,
    resource_uid: str,
) -> Object:
    return {
        "name": CONTAINER,
        "image": spec.pod.image or defaults.image,
        "imagePullPolicy": defaults.image_pull_policy,
        "args": _arguments(names, spec, defaults, audiences),
        "env": [
            {
                "name": "QSS_ORDINAL",
                "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{ORDINAL_LABEL}']"}},
            },
            # In a variable: an image that is older than the operator takes no unknown option.
            {"name": "QSS_RESOURCE_UID", "value": resource_uid},
            *_leaving(spec),
            *_pages(spec),
            *(_without_none(one) for one in spec.pod.env),
        ],
        "ports": [
            {"name": "query", "containerPort": QUERY_PORT},
            {"name": "changelog", "containerPort": CHANGELOG_PORT},
            {"name": "ops", "containerPort": OPS_PORT},
        ],
        "resources": _resources(spec),
        "readinessProbe": _probe("/readyz", period_s=2, failures=2),
        "livenessProbe": _probe("/livez", period_s=10, failures=6),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": VOLUME, "mountPath": "/data"},
            {"name": "tmp", "mountPath": "/tmp"},
            *_mounts(spec),
        ],
        # The status gets the last lines of the log of a container that failed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _arguments(
    names: StoreNames, spec: StoreSpec, defaults: PodDefaults, audiences: PodAudiences
) -> list[str]:
    arguments = [
        f"--store={names.store}",
        "--ordinal=$(QSS_ORDINAL)",
        "--data-dir=/data/store",
        "--host=0.0.0.0",
        f"--query-port={QUERY_PORT}",
        f"--internal-port={CHANGELOG_PORT}",
        f"--ops-port={OPS_PORT}",
        f"--log-format={defaults.log_format}",
    ]
    if spec.access.checks_callers:
        arguments += [
            "--authentication=serviceaccount",
            f"--namespace={names.namespace}",
            *_audience_arguments(spec, defaults, audiences),
            f"--peer-token-file={_TOKENS}/token",
            f"--peer-service-account={names.service_account}",
            f"--operator-service-account={defaults.operator_service_account}",
        ]
    if spec.access.tls_secret_name is not None:
        arguments.append(f"--tls-dir={_TLS}")
    return arguments


def _audience_arguments(
    spec: StoreSpec, defaults: PodDefaults, audiences: PodAudiences
) -> list[str]:
    arguments = [f"{TAKES}{audiences.takes}"]
    if spec.access.common_audience:
        arguments.append(f"--common-audience={defaults.token_audience}")
    if audiences.peers is not None:
        arguments.append(f"{PEERS}{audiences.peers}")
    return arguments


def _resources(spec: StoreSpec) -> Object:
    given = spec.pod.resources
    requests = {**_DEFAULT_REQUESTS, **given.limits, **given.requests}
    # A store that sets a memory request or limit gets no default limit.
    says_memory = "memory" in given.limits or "memory" in given.requests
    limits = given.limits if says_memory else {**_DEFAULT_LIMITS, **given.limits}
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _probe(path: str, *, period_s: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "ops"},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _volumes(spec: StoreSpec, audiences: PodAudiences) -> list[Object]:
    volumes: list[Object] = []
    if spec.access.checks_callers:
        source = {"audience": audiences.shows, "expirationSeconds": 3600, "path": "token"}
        volumes.append(
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": source}]}}
        )
    if spec.access.tls_secret_name is not None:
        volumes.append({"name": "tls", "secret": {"secretName": spec.access.tls_secret_name}})
    return volumes


def _mounts(spec: StoreSpec) -> list[Object]:
    mounts: list[Object] = []
    if spec.access.checks_callers:
        mounts.append({"name": "token", "mountPath": _TOKENS, "readOnly": True})
    if spec.access.tls_secret_name is not None:
        mounts.append({"name": "tls", "mountPath": _TLS, "readOnly": True})
    return mounts


def _without_none(value: msgspec.Struct) -> Object:
    given: Object = msgspec.to_builtins(value)
    return {name: member for name, member in given.items() if member is not None}
