"""Kubernetes objects in a dict: versions, preconditions, patches, pages. No schema, no rights.

It behaves like the real API server where the operator depends on it: a write without a change makes
no new version, a deletion waits for finalizers, an expired page is 410.
"""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
TIME = "2026-11-21T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Place:
    """The parts of a path."""

    group: str
    namespace: str | None
    plural: str
    name: str | None
    subresource: str | None

    @property
    def key(self) -> tuple[str, str | None, str, str | None]:
        """The key of the object."""
        return self.group, self.namespace, self.plural, self.name


_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
)


def place_of(path: str) -> Place | None:
    """The place of a path; None for other paths."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    group, namespace, plural, name, subresource = found.groups()
    return Place(group or "", namespace, plural, name, subresource)


class RefusalError(Exception):
    """A failure in the API server's words."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.document = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": message,
            "details": details,
        }


# The kinds with a generation that the operator reads. Services and pods have no generation.
_WITH_GENERATION = ("queryablestatestores", "statefulsets")


@dataclass(slots=True)
class ToyObjects:
    objects: dict[tuple[str, str | None, str, str | None], Object] = field(default_factory=dict)
    version: int = 100
    made: int = 0

    def get(self, place: Place) -> Object:
        if place.key not in self.objects:
            where = f"{place.plural}.{place.group}" if place.group else place.plural
            message = f'{where} "{place.name}" not found'
            raise RefusalError(404, "NotFound", message, name=place.name, kind=place.plural)
        return copy.deepcopy(self.objects[place.key])

    def page(self, place: Place, query: Mapping[str, str]) -> Object:
        found = [
            object_
            for (group, namespace, plural, _), object_ in sorted(
                self.objects.items(), key=lambda item: tuple(str(part) for part in item[0])
            )
            if (group, plural) == (place.group, place.plural)
            and place.namespace in (None, namespace)
            and _is_selected(object_, query.get("labelSelector", ""))
            and _has_fields(object_, query.get("fieldSelector", ""))
        ]
        start = int(query.get("continue", "0"))
        end = start + int(query.get("limit", "1000000"))
        rest = str(end) if end < len(found) else ""
        metadata = {"resourceVersion": str(self.version), "continue": rest}
        return {"kind": "List", "metadata": metadata, "items": copy.deepcopy(found[start:end])}

    def create(self, place: Place, body: Object) -> Object:
        name = body["metadata"]["name"]
        place = Place(place.group, place.namespace, place.plural, name, None)
        if place.key in self.objects:
            message = f'{place.plural} "{name}" already exists'
            raise RefusalError(409, "AlreadyExists", message, name=name, kind=place.plural)
        self.made += 1
        metadata: Object = {"uid": f"uid-{self.made}", "creationTimestamp": TIME}
        if place.plural in _WITH_GENERATION:
            metadata["generation"] = body["metadata"].get("generation", 1)
        new = {**body, "metadata": {**body["metadata"], **metadata}}
        if place.namespace is not None:
            new["metadata"]["namespace"] = place.namespace
        return self._store(place, new)

    def replace(self, place: Place, body: Object) -> Object:
        held = self.get(place)
        self._check(place, held, body["metadata"])
        if place.subresource is not None:
            return self._store(place, {**held, place.subresource: body.get(place.subresource)})
        uid = {"uid": held["metadata"]["uid"]}
        return self._store(place, {**body, "metadata": {**body["metadata"], **uid}})

    def patch(self, place: Place, body: Object) -> Object:
        held = self.get(place)
        self._check(place, held, body.get("metadata", {}))
        if place.subresource is not None:
            body = {key: one for key, one in body.items() if key == place.subresource}
        return self._store(place, merged(held, body))

    def apply(self, place: Place, body: Object) -> Object:
        """A merge: the toy has no owners of fields."""
        uid = body["metadata"].get("uid")
        held = self.objects.get(place.key)
        if uid is not None and held is None:
            message = f"uid mismatch: the provided object specified uid {uid}"
            raise RefusalError(409, "Conflict", message, name=place.name, kind=place.plural)
        if uid is not None and held is not None and held["metadata"]["uid"] != uid:
            cause = {"field": "metadata.uid", "message": "field is immutable"}
            raise RefusalError(422, "Invalid", "metadata.uid: field is immutable", causes=[cause])
        return self.patch(place, body) if place.key in self.objects else self.create(place, body)

    def delete(self, place: Place, options: Object) -> Object:
        held = self.get(place)
        preconditions = options.get("preconditions", {})
        if preconditions.get("uid", held["metadata"]["uid"]) != held["metadata"]["uid"]:
            message = f"Precondition failed: UID in precondition: {preconditions['uid']}"
            raise RefusalError(409, "Conflict", message, name=place.name, kind=place.plural)
        self._check(place, held, preconditions)
        if held["metadata"].get("finalizers"):
            return self._store(place, merged(held, {"metadata": {"deletionTimestamp": TIME}}))
        self.version += 1
        return self.objects.pop(place.key)

    def _check(self, place: Place, held: Object, metadata: Object) -> None:
        version = metadata.get("resourceVersion")
        if version is not None and version != held["metadata"]["resourceVersion"]:
            message = "the object has been modified; please apply your changes again"
            raise RefusalError(409, "Conflict", message, name=place.name, kind=place.plural)

    def _store(self, place: Place, new: Object) -> Object:
        held = self.objects.get(place.key)
        if held is not None:
            new["metadata"]["resourceVersion"] = held["metadata"]["resourceVersion"]
            if new == held:
                return copy.deepcopy(held)
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return self.objects.pop(place.key)
        self.objects[place.key] = copy.deepcopy(new)
        return copy.deepcopy(new)


def merged(held: Any, patch: Any) -> Any:
    """The merge of RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(held) if isinstance(held, dict) else {}
    for key, one in patch.items():
        if one is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), one)
    return result


def _is_selected(object_: Object, selector: str) -> bool:
    labels = object_["metadata"].get("labels", {})
    wanted = [one.partition("=") for one in selector.split(",") if one]
    return all(labels.get(key) == value for key, _, value in wanted)


def _has_fields(object_: Object, selector: str) -> bool:
    def field(path: str) -> Any:
        found: Any = object_
        for name in path.split("."):
            found = (found or {}).get(name)
        return found

    wanted = [one.partition("=") for one in selector.split(",") if one]
    return all(field(path) == value for path, _, value in wanted)
