"""Requests to the API server as values; each one knows whether it may be sent again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from qss_operator.kubernetes.api.kinds import SERVICE_ACCOUNTS, Kind

FIELD_MANAGER = "queryablestate-operator"

# The name says YAML, and JSON is YAML: API servers before 1.31 know no other name for it.
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_JSON = "application/json"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request. `verb` is the one that a Role has to allow."""

    verb: str
    kind: Kind
    namespace: str | None
    name: str | None = None
    subresource: str | None = None
    method: str = "GET"
    query: tuple[tuple[str, str], ...] = ()
    content_type: str | None = None
    body: Object | None = None
    # Whether the request may be sent again when the server may have acted on it already.
    is_repeatable: bool = True

    @property
    def url_path(self) -> str:
        on_collection = self.method == "POST"
        path = self.kind.path(self.namespace, None if on_collection else self.name)
        if self.subresource is not None:
            path = self.kind.path(self.namespace, self.name, self.subresource)
        return f"{path}?{urlencode(self.query)}" if self.query else path

    @property
    def resource(self) -> str:
        """The resource as a Role names it."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural

    def __str__(self) -> str:
        where = f" in the namespace {self.namespace}" if self.namespace is not None else ""
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectors:
    """The selectors of a list's objects."""

    labels: str | None = None
    fields: str | None = None


def get_request(kind: Kind, namespace: str | None, name: str) -> ApiRequest:
    """The request that reads one object as it is now, not from the API server's cache."""
    return ApiRequest(verb="get", kind=kind, namespace=namespace, name=name)


def list_request(
    kind: Kind,
    namespace: str | None,
    selectors: Selectors,
    limit: int,
    continue_: str | None,
) -> ApiRequest:
    """The request that reads one page of a list."""
    query = [("limit", str(limit))]
    if selectors.labels:
        query.append(("labelSelector", selectors.labels))
    if selectors.fields:
        query.append(("fieldSelector", selectors.fields))
    if continue_:
        query.append(("continue", continue_))
    return ApiRequest(verb="list", kind=kind, namespace=namespace, query=tuple(query))


def create_request(kind: Kind, namespace: str | None, body: Object) -> ApiRequest:
    """The request that creates an object; with the object's name it may be sent again."""
    name = body.get("metadata", {}).get("name")
    return ApiRequest(
        verb="create",
        kind=kind,
        namespace=namespace,
        name=name,
        method="POST",
        query=_WRITTEN_BY,
        content_type=_JSON,
        body=_typed(kind, body),
        is_repeatable=name is not None,
    )


def token_request(namespace: str, account: str, audience: str, life_s: int) -> ApiRequest:
    """The request for a token of a service account; a repeated one makes another good token."""
    return ApiRequest(
        verb="create",
        kind=SERVICE_ACCOUNTS,
        namespace=namespace,
        name=account,
        subresource="token",
        method="POST",
        content_type=_JSON,
        body={
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "expirationSeconds": life_s},
        },
    )


def apply_request(kind: Kind, namespace: str | None, body: Object) -> ApiRequest:
    """The server-side apply that makes the operator own the fields of the body, and no others."""
    metadata = body["metadata"]
    assert "managedFields" not in metadata, "an applied body is written, not read"
    # The server checks the version of an existing object. It would create a deleted object anew,
    # unless the body has its uid.
    assert "uid" in metadata or "resourceVersion" not in metadata, "a version without its uid"
    return ApiRequest(
        verb="patch",
        kind=kind,
        namespace=namespace,
        name=metadata["name"],
        method="PATCH",
        query=(*_WRITTEN_BY, ("force", "true")),
        content_type=_APPLY,
        body=_typed(kind, body),
    )


def merge_patch_request(
    kind: Kind, namespace: str | None, name: str, patch: Object, subresource: str | None
) -> ApiRequest:
    """The request that changes some fields; with a resourceVersion it may be sent again."""
    return ApiRequest(
        verb="patch",
        kind=kind,
        namespace=namespace,
        name=name,
        subresource=subresource,
        method="PATCH",
        query=_WRITTEN_BY,
        content_type=_MERGE,
        body=patch,
        is_repeatable=_has_version(patch),
    )


def replace_request(
    kind: Kind, namespace: str | None, name: str, body: Object, subresource: str | None
) -> ApiRequest:
    """The request that replaces the object of the version that the body names."""
    assert _has_version(body), "a replacement without resourceVersion overwrites what others wrote"
    return ApiRequest(
        verb="update",
        kind=kind,
        namespace=namespace,
        name=name,
        subresource=subresource,
        method="PUT",
        query=_WRITTEN_BY,
        content_type=_JSON,
        body=_typed(kind, body),
    )


def delete_request(
    kind: Kind,
    namespace: str | None,
    name: str,
    *,
    uid: str | None,
    resource_version: str | None,
    propagation: str | None,
    grace_period_s: int | None,
) -> ApiRequest:
    """The request that deletes an object; with its uid or version it may be sent again.

    Without them a repeat might delete a new object of the same name.
    """
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid is not None or resource_version is not None:
        body["preconditions"] = {key: one for key, one in preconditions.items() if one is not None}
    if propagation is not None:
        body["propagationPolicy"] = propagation
    if grace_period_s is not None:
        body["gracePeriodSeconds"] = grace_period_s
    return ApiRequest(
        verb="delete",
        kind=kind,
        namespace=namespace,
        name=name,
        method="DELETE",
        content_type=_JSON,
        body=body,
        is_repeatable="preconditions" in body,
    )


_WRITTEN_BY = (("fieldManager", FIELD_MANAGER),)


def _has_version(body: Mapping[str, Any]) -> bool:
    return bool(body.get("metadata", {}).get("resourceVersion"))


def _typed(kind: Kind, body: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}
