"""The settings of an operator process, from its command line and its environment."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qss_operator.kubernetes.objects.pod_template import DEFAULT_USER, PodDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    namespaces: tuple[str, ...]  # Empty means all namespaces.
    lease_namespace: str
    lease_name: str
    identity: str
    ops_host: str
    ops_port: int
    kubeconfig: str | None
    log_level: str
    log_format: str
    rounds_max: int
    reviews_binding: str
    defaults: PodDefaults


def parse_settings(
    argv: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ
) -> OperatorSettings:
    """Parses the command line; absent options come from the chart's `QSS_...` variables."""
    parser = argparse.ArgumentParser(
        prog="qss_operator",
        description="Runs the stores that QueryableStateStore resources describe.",
    )
    add = parser.add_argument
    of = environment.get
    add(
        "--namespaces",
        default=of("QSS_NAMESPACES", ""),
        help="the watched namespaces, comma-separated; if empty, all",
    )
    _add_pods(parser, environment)
    _add_access(parser, environment)
    add("--lease-namespace", default=of("QSS_LEASE_NAMESPACE", "default"))
    add("--lease-name", default=of("QSS_LEASE_NAME", "queryable-state-operator"))
    add("--identity", default=of("QSS_IDENTITY", of("HOSTNAME", "operator")))
    add("--ops-host", default=of("QSS_OPS_HOST", "0.0.0.0"))
    add("--ops-port", type=int, default=int(of("QSS_OPS_PORT", "8082")))
    add("--kubeconfig", default=None, help="outside of a cluster; else the pod's own access")
    add("--log-level", default=of("QSS_LOG_LEVEL", "info"), choices=("debug", "info", "warning"))
    add("--log-format", default=of("QSS_LOG_FORMAT", "text"), choices=("text", "json"))
    add("--rounds-max", type=int, default=int(of("QSS_ROUNDS_MAX", "16")))
    given = parser.parse_args(argv)
    if not given.store_image:
        parser.error("--store-image (or QSS_STORE_IMAGE) is required: the image of the store pods")
    return OperatorSettings(
        namespaces=_names(given.namespaces),
        lease_namespace=given.lease_namespace,
        lease_name=given.lease_name,
        identity=given.identity,
        ops_host=given.ops_host,
        ops_port=given.ops_port,
        kubeconfig=given.kubeconfig,
        log_level=given.log_level,
        log_format=given.log_format,
        rounds_max=given.rounds_max,
        reviews_binding=given.reviews_binding,
        defaults=PodDefaults(
            image=given.store_image,
            image_pull_policy=given.store_image_pull_policy,
            image_pull_secrets=_names(given.store_image_pull_secrets),
            user=int(given.store_user) if given.store_user else None,
            operator_service_account=given.service_account,
            operator_release=given.release,
            token_audience=given.token_audience,
        ),
    )


def _add_pods(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    add = parser.add_argument
    of = environment.get
    add("--store-image", default=of("QSS_STORE_IMAGE", ""), help="the image of store pods")
    add("--store-image-pull-policy", default=of("QSS_STORE_IMAGE_PULL_POLICY", "IfNotPresent"))
    add("--store-image-pull-secrets", default=of("QSS_STORE_IMAGE_PULL_SECRETS", ""))
    add(
        "--store-user",
        default=of("QSS_STORE_USER", str(DEFAULT_USER)),
        help="user and group of store pods; if empty, the cluster chooses them",
    )


def _add_access(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    add = parser.add_argument
    of = environment.get
    add("--service-account", default=of("QSS_SERVICE_ACCOUNT", ""), help="NAMESPACE/NAME of this")
    add(
        "--release",
        default=of("QSS_RELEASE", ""),
        help="the label app.kubernetes.io/instance of this pod, which stores let in",
    )
    add(
        "--token-audience",
        default=of("QSS_TOKEN_AUDIENCE", "queryablestate.dev"),
        help="the common audience, for stores that allow it",
    )
    add(
        "--reviews-binding",
        default=of("QSS_REVIEWS_BINDING", ""),
        help="the ClusterRoleBinding by which stores' pods may ask for reviews; "
        "if empty, the operator does not manage the binding",
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)
