"""The copies that `qss mirror` makes: one part by options, or several by a file. Pure but for the
file."""

from pathlib import Path

import msgspec

from qss_core.errors import MalformedRequestError
from qss_core.wire.writer_reports import check_writer_name

_FILE_BYTES_MAX = 256 * 1024
_STORES_MAX = 64


class WantedCopy(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A part of the state, and the store that gets it.

    url: of any pod of the store. token_file: a token for it, where it checks its callers.
    """

    store: str
    operator: int | None = None
    part: str | None = None
    keep_deleted: bool = False
    value: tuple[str, ...] = ()
    url: str | None = None
    token_file: str | None = None


class WantedCopies(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Parts of one state, each with its store; `writer` is the same in all of them."""

    writer: str
    stores: tuple[WantedCopy, ...]


def read_wanted(file: Path) -> WantedCopies:
    """The copies that a YAML file asks for. Raises MalformedRequestError, which names the file."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise MalformedRequestError(f"{file} cannot be read: {error.strerror}") from error
    if len(text) > _FILE_BYTES_MAX:
        raise MalformedRequestError(f"{file} is larger than {_FILE_BYTES_MAX} bytes")
    try:
        wanted = msgspec.yaml.decode(text, type=WantedCopies)
    except (msgspec.DecodeError, ValueError) as error:
        raise MalformedRequestError(
            f"{file}: {error}. It has the form {{writer: NAME, stores: [{{store: NAME, operator: "
            "0, part: NAME, keepDeleted: false, value: ['mean=sum/count']}, ...]}"
        ) from error
    names = [one.store for one in wanted.stores]
    if not names or len(set(names)) != len(names) or len(names) > _STORES_MAX:
        raise MalformedRequestError(f"{file}: 1 to {_STORES_MAX} stores, each of them once")
    check_writer_name(wanted.writer)
    return wanted
