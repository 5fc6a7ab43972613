"""Checks the version of aiohttp, whose private members the pod uses."""

from collections.abc import Callable
from importlib.metadata import version

# `http.connection.protocol` subclasses aiohttp's RequestHandler and uses its private members.
_AIOHTTP = ("3", "14")


class LibraryError(Exception):
    """A library has a version that the pod does not support."""


def check_libraries(installed: Callable[[str], str] = version) -> None:
    """Raises LibraryError where aiohttp has another minor version than `_AIOHTTP`.

    Another minor version may have other private members.
    """
    found = installed("aiohttp")
    if tuple(found.split(".")[:2]) != _AIOHTTP:
        wanted = ".".join(_AIOHTTP)
        raise LibraryError(
            f"aiohttp {found} is installed, and a store pod needs aiohttp {wanted}: "
            f"pip install 'aiohttp=={wanted}.*'"
        )
