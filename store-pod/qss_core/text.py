"""Text encoded like Kafka's Java encodes it, and base64url for bytes in paths and tokens."""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence

import msgspec

from qss_core.errors import MalformedRequestError

# Java reads an encoded lone surrogate as one bad character, Python byte by byte.
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()
# An escape of the first half of a surrogate pair without the second half.
_LONE_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})")
# Characters that end a line, control a terminal, or turn the direction of later text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    """The text in one line that a terminal shows as it is: control characters as JSON escapes.

    A reader of a pipe may also break lines at U+0085 or U+2028.
    """
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def listed(names: Sequence[str], names_max: int = 8) -> str:
    """At most `names_max` names with commas between them, and the number of further names."""
    more = len(names) - names_max
    first = ", ".join(names[:names_max])
    return f"{first} and {more} more" if more > 0 else first


def by_reason(told: Iterable[tuple[object, str]]) -> list[tuple[str, str]]:
    """The names that have the same reason, listed, and the reason: each reason comes once."""
    names: dict[str, list[str]] = {}
    for name, reason in told:
        names.setdefault(reason, []).append(str(name))
    return [(listed(alike), reason) for reason, alike in names.items()]


def encode_text(text: str) -> bytes:
    """The UTF-8 bytes of a text; a lone surrogate becomes '?', as in Kafka's serializers."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # In Java two adjacent halves of a surrogate pair are one character.
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode(errors="replace")


def is_whole(text: str) -> bool:
    """Whether the text has no lone surrogate, whose bytes another text would have, too."""
    try:
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return False
    return True


def allowed_members(kind: type, error: Exception) -> str:
    """The end of an error text: the members of a struct, if msgspec met an unknown one; else ""."""
    said = str(error)
    if "unknown field" not in said or " - at `$" in said or not issubclass(kind, msgspec.Struct):
        return ""
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    return f"; it has {', '.join(names)}" if names else "; it has none"


def json_problem(data: bytes | str, error: Exception) -> str:
    """The fault of a JSON text that a decoder refused: msgspec calls a lone surrogate truncated."""
    text = data if isinstance(data, str) else data.decode(errors="replace")
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if "truncated" in str(error) and (found := _LONE_SURROGATE.search(text)):
        return f"{found[0]} is half of a surrogate pair, which is no character (RFC 7493)"
    return str(error)


def decode_text(data: bytes) -> str:
    """Decodes UTF-8; other bytes become U+FFFD, as in Kafka's deserializers."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def encode_base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Decodes base64url, padded or not.

    Raises MalformedRequestError for any text that `encode_base64url` would not write.
    """
    digits = text.rstrip("=")
    try:
        data = urlsafe_b64decode(digits + "=" * (-len(digits) % 4))
    except (ValueError, binascii.Error) as error:
        raise MalformedRequestError(f"not base64url: {text[:40]!r}") from error
    # The decoder ignores foreign characters and spare bits, so two texts could name one key.
    if encode_base64url(data) != digits:
        raise MalformedRequestError(f"not base64url: {text[:40]!r}")
    return data
