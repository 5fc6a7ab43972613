"""Kinds of Kubernetes objects that only tests read or write."""

from qss_operator.kubernetes.api.kinds import Kind

CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap")
CUSTOM_RESOURCE_DEFINITIONS = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
