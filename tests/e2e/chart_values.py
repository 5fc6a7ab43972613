"""A case for each value of the chart: settings, and a check of the rendered objects."""

from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]
Check = Callable[[Mapping[tuple[str, str], Object]], object]
RELEASE = "demo"
NAME = f"{RELEASE}-queryable-state"
IN_SYSTEM = f"system-{NAME}"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def _pod(made: Mapping[tuple[str, str], Object]) -> Object:
    found: Object = made["Deployment", NAME]["spec"]["template"]
    return found


def _container(made: Mapping[tuple[str, str], Object]) -> Object:
    found: Object = _pod(made)["spec"]["containers"][0]
    return found


def _env(made: Mapping[tuple[str, str], Object]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in _container(made)["env"]}


def _labelled(made: Mapping[tuple[str, str], Object], kind: str, name: str) -> dict[str, str]:
    labels: dict[str, str] = made[kind, name]["metadata"]["labels"]
    return labels


_MONITORS = "metrics.serviceMonitor"
_PODS = "metrics.podMonitor"
_RULES = "metrics.prometheusRule"
_BOARD = "metrics.dashboard"

# By value: the settings, and the check of the objects that they render.
CASES: dict[str, tuple[list[str], Check]] = {
    "nameOverride": (["nameOverride=short"], lambda made: ("Deployment", "demo-short") in made),
    "fullnameOverride": (["fullnameOverride=own"], lambda made: ("Deployment", "own") in made),
    "commonLabels": (
        ["commonLabels.team=flights"],
        lambda made: all(
            one["metadata"]["labels"]["team"] == "flights"
            for (kind, _), one in made.items()
            if kind != "CustomResourceDefinition"
        ),
    ),
    "imagePullSecrets": (
        ["imagePullSecrets={key}"],
        lambda made: _pod(made)["spec"]["imagePullSecrets"] == [{"name": "key"}],
    ),
    "image.repository": (
        ["image.repository=r/o"],
        lambda made: _container(made)["image"] == "r/o:0.1.0",
    ),
    "image.tag": (["image.tag=t"], lambda made: _container(made)["image"].endswith("/operator:t")),
    "image.digest": (
        [f"image.digest={DIGEST}"],
        lambda made: _container(made)["image"] == f"queryable-state/operator@{DIGEST}",
    ),
    "image.pullPolicy": (
        ["image.pullPolicy=Always"],
        lambda made: _container(made)["imagePullPolicy"] == "Always",
    ),
    "storeImage.repository": (
        ["storeImage.repository=r/s"],
        lambda made: _env(made)["QSS_STORE_IMAGE"] == "r/s:0.1.0",
    ),
    "storeImage.tag": (
        ["storeImage.tag=t"],
        lambda made: _env(made)["QSS_STORE_IMAGE"].endswith("/store:t"),
    ),
    "storeImage.digest": (
        ["storeImage.tag=t", f"storeImage.digest={DIGEST}"],
        lambda made: _env(made)["QSS_STORE_IMAGE"] == f"queryable-state/store:t@{DIGEST}",
    ),
    "storeImage.pullPolicy": (
        ["storeImage.pullPolicy=Never"],
        lambda made: _env(made)["QSS_STORE_IMAGE_PULL_POLICY"] == "Never",
    ),
    "storeImage.pullSecrets": (
        ["storeImage.pullSecrets={a,b}"],
        lambda made: _env(made)["QSS_STORE_IMAGE_PULL_SECRETS"] == "a,b",
    ),
    "podSecurity.fixedUser": (
        ["podSecurity.fixedUser=false"],
        lambda made: (
            _env(made)["QSS_STORE_USER"] == ""
            and not {"runAsUser", "runAsGroup", "fsGroup"}
            & set(_pod(made)["spec"]["securityContext"])
        ),
    ),
    "operator.logFormat": (
        ["operator.logFormat=json"],
        lambda made: _env(made)["QSS_LOG_FORMAT"] == "json",
    ),
    "watch.namespaces": (
        ["watch.namespaces={a,b,a}"],
        lambda made: (
            _env(made)["QSS_NAMESPACES"] == "a,b"
            and ("ClusterRole", IN_SYSTEM) not in made
            and ("Role", IN_SYSTEM) in made
        ),
    ),
    "crds.install": (
        ["crds.install=false"],
        lambda made: all(kind != "CustomResourceDefinition" for kind, _ in made),
    ),
    "rbac.create": (
        ["rbac.create=false"],
        lambda made: (
            ("ClusterRole", IN_SYSTEM) not in made and ("Role", f"{NAME}-lease") not in made
        ),
    ),
    "rbac.userRoles": (
        ["rbac.userRoles=false"],
        lambda made: ("ClusterRole", "queryablestate-reader") not in made,
    ),
    "reviews.create": (
        ["reviews.create=false"],
        lambda made: (
            ("ClusterRole", f"{IN_SYSTEM}-store-pods") not in made
            and ("ClusterRole", f"{IN_SYSTEM}-reviews") not in made
            and _env(made)["QSS_REVIEWS_BINDING"] == ""
        ),
    ),
    "tls.secretNames": (
        ["tls.secretNames={words-tls}"],
        lambda made: (
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "resourceNames": ["words-tls"],
                "verbs": ["get"],
            }
            in made["ClusterRole", IN_SYSTEM]["rules"]
        ),
    ),
    "serviceAccount.create": (
        ["serviceAccount.create=false", "serviceAccount.name=own"],
        lambda made: (
            ("ServiceAccount", NAME) not in made
            and _pod(made)["spec"]["serviceAccountName"] == "own"
        ),
    ),
    "serviceAccount.name": (
        ["serviceAccount.name=own"],
        lambda made: (
            ("ServiceAccount", "own") in made
            and made["ClusterRoleBinding", IN_SYSTEM]["subjects"][0]["name"] == "own"
            and _env(made)["QSS_SERVICE_ACCOUNT"] == "system/own"
        ),
    ),
    "serviceAccount.annotations": (
        ["serviceAccount.annotations.a=b"],
        lambda made: made["ServiceAccount", NAME]["metadata"]["annotations"] == {"a": "b"},
    ),
    "operator.replicas": (
        ["operator.replicas=1"],
        lambda made: (
            made["Deployment", NAME]["spec"]["replicas"] == 1
            and ("PodDisruptionBudget", NAME) not in made
        ),
    ),
    "operator.logLevel": (
        ["operator.logLevel=debug"],
        lambda made: _env(made)["QSS_LOG_LEVEL"] == "debug",
    ),
    "operator.roundsMax": (
        ["operator.roundsMax=3"],
        lambda made: _env(made)["QSS_ROUNDS_MAX"] == "3",
    ),
    "operator.tokenAudience": (
        ["operator.tokenAudience=own"],
        lambda made: _env(made)["QSS_TOKEN_AUDIENCE"] == "own",
    ),
    "operator.env": (
        ["operator.env[0].name=TZ", "operator.env[0].value=UTC"],
        lambda made: _env(made)["TZ"] == "UTC",
    ),
    "operator.podLabels": (
        ["operator.podLabels.a=b"],
        lambda made: _pod(made)["metadata"]["labels"]["a"] == "b",
    ),
    "operator.podAnnotations": (
        ["operator.podAnnotations.a=b"],
        lambda made: _pod(made)["metadata"]["annotations"]["a"] == "b",
    ),
    "operator.resources": (
        ["operator.resources.limits.memory=1Gi"],
        lambda made: _container(made)["resources"]["limits"]["memory"] == "1Gi",
    ),
    "operator.nodeSelector": (
        ["operator.nodeSelector.a=b"],
        lambda made: _pod(made)["spec"]["nodeSelector"] == {"a": "b"},
    ),
    "operator.tolerations": (
        ["operator.tolerations[0].operator=Exists"],
        lambda made: _pod(made)["spec"]["tolerations"] == [{"operator": "Exists"}],
    ),
    "operator.affinity": (
        ["operator.affinity.nodeAffinity.x=y"],
        lambda made: _pod(made)["spec"]["affinity"] == {"nodeAffinity": {"x": "y"}},
    ),
    "operator.priorityClassName": (
        ["operator.priorityClassName=high"],
        lambda made: _pod(made)["spec"]["priorityClassName"] == "high",
    ),
    "operator.topologySpreadConstraints": (
        [
            "operator.topologySpreadConstraints[0].topologyKey=rack",
            "operator.topologySpreadConstraints[0].maxSkew=2",
        ],
        lambda made: _pod(made)["spec"]["topologySpreadConstraints"][0]["topologyKey"] == "rack",
    ),
    "operator.terminationGracePeriodSeconds": (
        ["operator.terminationGracePeriodSeconds=11"],
        lambda made: _pod(made)["spec"]["terminationGracePeriodSeconds"] == 11,
    ),
    "podDisruptionBudget.create": (
        ["podDisruptionBudget.create=false"],
        lambda made: ("PodDisruptionBudget", NAME) not in made,
    ),
    "podDisruptionBudget.maxUnavailable": (
        ["podDisruptionBudget.maxUnavailable=50%"],
        lambda made: made["PodDisruptionBudget", NAME]["spec"]["maxUnavailable"] == "50%",
    ),
    "networkPolicy.create": (
        ["networkPolicy.create=false"],
        lambda made: ("NetworkPolicy", NAME) not in made,
    ),
    "networkPolicy.opsFrom": (
        ["networkPolicy.opsFrom[0].podSelector.matchLabels.app=prometheus"],
        lambda made: (
            made["NetworkPolicy", NAME]["spec"]["ingress"][0]["from"]
            == [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
        ),
    ),
    "metrics.service.create": (
        ["metrics.service.create=false"],
        lambda made: (
            ("Service", f"{NAME}-metrics") not in made and ("Pod", f"{NAME}-test") not in made
        ),
    ),
    "metrics.service.annotations": (
        ["metrics.service.annotations.a=b"],
        lambda made: made["Service", f"{NAME}-metrics"]["metadata"]["annotations"] == {"a": "b"},
    ),
    f"{_MONITORS}.create": (
        [f"{_MONITORS}.create=true"],
        lambda made: ("ServiceMonitor", NAME) in made,
    ),
    f"{_MONITORS}.labels": (
        [f"{_MONITORS}.create=true", f"{_MONITORS}.labels.a=b"],
        lambda made: _labelled(made, "ServiceMonitor", NAME)["a"] == "b",
    ),
    f"{_MONITORS}.interval": (
        [f"{_MONITORS}.create=true", f"{_MONITORS}.interval=9s"],
        lambda made: made["ServiceMonitor", NAME]["spec"]["endpoints"][0]["interval"] == "9s",
    ),
    f"{_PODS}.create": (
        [f"{_PODS}.create=true", "watch.namespaces={a}"],
        lambda made: (
            made["PodMonitor", f"{NAME}-stores"]["spec"]["namespaceSelector"]
            == {"matchNames": ["a"]}
        ),
    ),
    f"{_PODS}.labels": (
        [f"{_PODS}.create=true", f"{_PODS}.labels.a=b"],
        lambda made: _labelled(made, "PodMonitor", f"{NAME}-stores")["a"] == "b",
    ),
    f"{_PODS}.interval": (
        [f"{_PODS}.create=true", f"{_PODS}.interval=9s"],
        lambda made: (
            made["PodMonitor", f"{NAME}-stores"]["spec"]["podMetricsEndpoints"][0]["interval"]
            == "9s"
        ),
    ),
    f"{_RULES}.create": (
        [f"{_RULES}.create=true"],
        lambda made: 'job="system/' in str(made["PrometheusRule", NAME]["spec"]),
    ),
    f"{_RULES}.labels": (
        [f"{_RULES}.create=true", f"{_RULES}.labels.a=b"],
        lambda made: _labelled(made, "PrometheusRule", NAME)["a"] == "b",
    ),
    f"{_RULES}.runbookUrl": (
        [f"{_RULES}.create=true", f"{_RULES}.runbookUrl=wiki/"],
        lambda made: (
            made["PrometheusRule", NAME]["spec"]["groups"][0]["rules"][0]["annotations"][
                "runbook_url"
            ]
            == "wiki/queryablestatenoleader"
        ),
    ),
    f"{_BOARD}.create": (
        [f"{_BOARD}.create=true"],
        lambda made: _labelled(made, "ConfigMap", f"{NAME}-dashboard")["grafana_dashboard"] == "1",
    ),
    f"{_BOARD}.labels": (
        [f"{_BOARD}.create=true", f"{_BOARD}.labels.a=b"],
        lambda made: _labelled(made, "ConfigMap", f"{NAME}-dashboard")["a"] == "b",
    ),
    "tests.create": (["tests.create=false"], lambda made: ("Pod", f"{NAME}-test") not in made),
}
