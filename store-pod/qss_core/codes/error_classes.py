"""The class of each error code: makes the error of a problem document that came over the wire."""

from typing import Any

from qss_core.errors import StoreError


def _concrete(base: type[StoreError]) -> list[type[StoreError]]:
    return [base, *(leaf for sub in base.__subclasses__() for leaf in _concrete(sub))]


# Without the classes of other packages, which no problem document names.
ERRORS: dict[tuple[str, int], type[StoreError]] = {
    (error.code, error.http_status): error
    for error in _concrete(StoreError)
    if error.__module__ == StoreError.__module__
}


def error_from_wire(code: str, status: int, message: str, details: dict[str, Any]) -> StoreError:
    """The error of a problem document; an unknown code gives a plain StoreError."""
    known = ERRORS.get((code, status))
    if known is None:
        known = next((error for error in ERRORS.values() if error.code == code), None)
    if known is not None:
        return known(message, **details)
    return StoreError(f"{code}: {message}", **{**details, "status": status})
