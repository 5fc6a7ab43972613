"""Reads the version of a pod from the image of its container."""

from typing import Any

from qss_operator.kubernetes.access.audiences import CONTAINER

_DIGEST_CHARS = len("sha256:") + 12


def version_of(pod: dict[str, Any] | None) -> str:
    """The tag of the image, or the start of its digest where it has no tag; "" without a pod."""
    containers = ((pod or {}).get("spec") or {}).get("containers") or []
    image = next((one.get("image") or "" for one in containers if one["name"] == CONTAINER), "")
    if not image:
        return ""
    name, _, digest = image.partition("@")
    # A registry may have a port, so only the last part of the path has the tag.
    tag: str = name.rpartition("/")[2].partition(":")[2]
    return tag or digest[:_DIGEST_CHARS] or "latest"
