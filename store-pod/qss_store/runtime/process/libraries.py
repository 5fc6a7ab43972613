"""Checks that the installed libraries are those whose inner parts the pod uses."""

from collections.abc import Callable
from importlib.metadata import version

_AIOHTTP = ("3", "14")  # `http.connections` uses private members of its protocol.


class LibraryError(Exception):
    """A library has a version that the pod was not made for."""


def check_libraries(installed: Callable[[str], str] = version) -> None:
    """Raises LibraryError where aiohttp has another minor version than the pod was made for.

    A minor version may change the private members of its protocol that the fast path uses.
    """
    found = installed("aiohttp")
    if tuple(found.split(".")[:2]) != _AIOHTTP:
        wanted = ".".join(_AIOHTTP)
        raise LibraryError(
            f"aiohttp {found} is installed, and a store pod needs aiohttp {wanted}: "
            f"pip install 'aiohttp=={wanted}.*'"
        )
