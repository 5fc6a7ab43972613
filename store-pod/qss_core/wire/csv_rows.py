"""CSV (RFC 4180) as pods send it and `qss` prints it; a line ends with a line feed. Pure.

A text is written as it is, null is an empty field, an empty text is `""`, and any other value is
its JSON.
"""

import re
from collections.abc import Sequence

import msgspec

# A field without quotes: it is not empty, and has no white space at its ends.
_is_plain = re.compile(r'[^\s,"](?:[^,"\r\n]*[^\s,"])?').fullmatch
_decode_text = msgspec.json.Decoder(str).decode


def csv_line(cells: Sequence[str | None]) -> str:
    """A line without its end; None is an empty field, an empty text is `""`."""
    return ",".join("" if cell is None else _field(cell) for cell in cells)


def csv_cell(json: bytes) -> str | None:
    """The cell of a JSON value; a text with half of a surrogate pair stays JSON."""
    if json == b"null":
        return None
    if json.startswith(b'"'):
        try:
            return _decode_text(json)
        except msgspec.DecodeError:
            pass  # No encoding has a character for it.
    return json.decode()


def _field(text: str) -> str:
    if _is_plain(text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
