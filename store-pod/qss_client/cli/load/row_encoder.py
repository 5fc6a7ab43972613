"""Encodes rows of a file by the serdes of a store, and collects the lines that do not fit."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa

from qss_client.chunks.chunk import KEY_BYTES_MAX, VALUE_BYTES_MAX, Slice, slices_of
from qss_client.chunks.chunk_schema import TIME_COLUMNS
from qss_client.chunks.key_hashes import partitions_of_list
from qss_client.cli.load.input_rows import InputRow, Text
from qss_core.errors import MalformedRequestError, StoreError
from qss_core.model import Partitioner, StoreDefinition, StoreType
from qss_core.serdes.json import JSON_REFUSALS, check_json_syntax, json_or_text, parse_json
from qss_core.serdes.registry import Serde, serde_of
from qss_core.text import encode_text
from qss_core.times import time_of_json, time_of_text

GROUP_BYTES_MAX = 16 * 1024 * 1024  # Encoded rows in memory, before they are staged.
PROBLEMS_MAX = 10
_TEXTS = frozenset({"string", "uuid", "bytes"})  # Serdes whose JSON is a text.
_NEITHER = ("partition", "headers", "sequence", "windowEnd", "window_end", "validTo")
_WHOLE = re.compile("[0-9]{1,9}")
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Cells = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of key, value and time; several make a JSON object.

    value: empty: the column `value`, or without one an object of all other columns. timestamp:
    None: the column `timestamp` if there is one. texts: columns of CSV whose fields stay texts.
    """

    key: tuple[str, ...] = ("key",)
    value: tuple[str, ...] = ()
    timestamp: str | None = None
    texts: frozenset[str] = frozenset()


class InputRowEncoder:
    """Encodes the rows of one file for one store."""

    def __init__(
        self, definition: StoreDefinition, columns: Columns, names: Sequence[str], line_word: str
    ) -> None:
        """`names` are the columns of the file. Raises MalformedRequestError if one is missing."""
        self._definition = definition
        self._columns = columns
        self._line_word = line_word
        self._keys = serde_of(definition.key_serde)
        self._values = serde_of(definition.value_serde)
        self._timestamp = columns.timestamp
        if self._timestamp is None and "timestamp" in {*names} - {*columns.key, *columns.value}:
            self._timestamp = "timestamp"
        self._times = {
            name: next((one for one in (name, _camel(name)) if one in names), name)
            for name in TIME_COLUMNS.get(definition.row_type, ())
        }
        self._value = columns.value or (("value",) if "value" in names else ())
        # Columns that would be read if the first row had them; a later row must not have them.
        chosen = {"value": self._value, "timestamp": self._timestamp}
        late = {name for name, column in chosen.items() if not column}
        self._late = late - {*names, *columns.key, *columns.value}
        self._check(names)

    def groups(self, rows: Iterable[InputRow]) -> Iterator[list[Slice]]:
        """The slices of a batch, in groups of about GROUP_BYTES_MAX.

        Raises MalformedRequestError with the lines that do not fit, PROBLEMS_MAX at most.
        """
        gathered: list[dict[str, Any]] = []
        size = 0
        problems: list[str] = []
        for row in rows:
            try:
                encoded = self._row(row)
            except StoreError as error:
                problems.append(f"{self._line_word} {row.line}: {error.message}")
                if len(problems) == PROBLEMS_MAX:
                    break
                continue
            if problems:
                continue
            gathered.append(encoded)
            size += len(encoded["key"]) + len(encoded["value"] or b"")
            if size >= GROUP_BYTES_MAX:
                yield self._slices(gathered)
                gathered, size = [], 0
        if problems:
            raise MalformedRequestError("\n".join(problems))
        if gathered:
            yield self._slices(gathered)

    def _check(self, names: Sequence[str]) -> None:
        wanted = [*self._columns.key, *self._value, *self._times.values(), *self._columns.texts]
        if self._timestamp is not None:
            wanted.append(self._timestamp)
        if self._definition.partitioner is Partitioner.EXPLICIT:
            wanted.append("partition")
        if missing := [name for name in dict.fromkeys(wanted) if name not in names]:
            raise MalformedRequestError(
                f"the file has no column {', '.join(missing)}: it has {', '.join(names)}; "
                "--key, --value and --timestamp name the columns"
            )
        for option, columns, serde in (
            ("--key", self._columns.key, self._keys),
            ("--value", self._value, self._values),
        ):
            if len(columns) != 1 and serde.name != "json":
                raise MalformedRequestError(
                    f"several columns make a JSON object, and {option[2:]}s of store "
                    f"{self._definition.name} are {serde.name}: name one column by {option}"
                )
        if self._definition.row_type is StoreType.VERSIONED and self._timestamp is None:
            raise MalformedRequestError(
                f"store {self._definition.name} is Versioned: name the column of the time from "
                "which a value is valid by --timestamp"
            )

    def _row(self, row: InputRow) -> dict[str, Any]:
        if row.problem is not None:
            raise MalformedRequestError(row.problem)
        cells = row.cells
        if self._late and (late := sorted(self._late & cells.keys())):
            raise MalformedRequestError(
                f'column "{late[0]}" is not in the first {self._line_word}, which has the columns '
                f"of the file: {self._what_to_do(late[0])}"
            )
        key = self._encoded(cells, self._columns.key, self._keys)
        if key is None:
            raise MalformedRequestError(f'column "{self._columns.key[0]}" is null: a row has a key')
        _check_length("key", key, KEY_BYTES_MAX)
        value = self._encoded(cells, self._value or self._others(cells), self._values)
        _check_length("value", value or b"", VALUE_BYTES_MAX)
        encoded: dict[str, Any] = {"key": key, "value": value}
        if self._timestamp is not None:
            is_needed = self._definition.row_type is StoreType.VERSIONED
            encoded["timestamp"] = _time(self._timestamp, cells, is_needed=is_needed)
        for name, column in self._times.items():
            encoded[name] = _time(column, cells, is_needed=True)
        if self._definition.partitioner is Partitioner.EXPLICIT:
            encoded["partition"] = self._partition(cells.get("partition"))
        return encoded

    def _what_to_do(self, late: str) -> str:
        """The mend of a column that the first line lacks: `value` there would be all values."""
        if late == "value":
            return "name the columns of the value by --value"
        return "add it there, as null where that row has none"

    def _others(self, cells: Cells) -> tuple[str, ...]:
        """The columns of a value that no option names."""
        taken = {*self._columns.key, self._timestamp, *self._times.values(), *_NEITHER}
        return tuple(name for name in cells if name not in taken)

    def _encoded(self, cells: Cells, names: tuple[str, ...], serde: Serde) -> bytes | None:
        if len(names) == 1 and (names == self._value or names == self._columns.key):
            cell = cells.get(names[0])
            try:
                if serde.name == "json" and isinstance(cell, Text):
                    if names[0] in self._columns.texts:
                        return _encode_json(str(cell))
                    _check_looks_whole(cell)
                return _encode(cell, serde)
            except StoreError as error:
                raise MalformedRequestError(f'column "{names[0]}": {error.message}') from error
        return _encode_json({name: self._member(name, cells.get(name)) for name in names})

    def _member(self, name: str, cell: Any) -> Any:
        if not isinstance(cell, Text) or name in self._columns.texts:
            return str(cell) if isinstance(cell, Text) else cell
        try:
            _check_looks_whole(cell)
        except MalformedRequestError as error:
            raise MalformedRequestError(f'column "{name}": {error.message}') from error
        return msgspec.Raw(cell.encode()) if _is_json(cell) else str(cell)

    def _partition(self, cell: Any) -> int:
        number = _parsed(cell) if isinstance(cell, msgspec.Raw) else cell
        if isinstance(number, Text) and _WHOLE.fullmatch(number):
            number = int(number)
        if type(number) is not int or not 0 <= number < self._definition.partitions:
            raise MalformedRequestError(
                f'column "partition" has a number from 0 to {self._definition.partitions - 1}'
            )
        return number

    def _slices(self, rows: list[dict[str, Any]]) -> list[Slice]:
        keys = [row["key"] for row in rows]
        arrays = {
            name: pa.array(
                [row[name] for row in rows],
                pa.binary() if name in ("key", "value") else pa.int64(),
            )
            for name in rows[0]
            if name != "partition"
        }
        if self._definition.partitioner is Partitioner.EXPLICIT:
            places = pa.array([row["partition"] for row in rows], pa.int32())
        else:
            places = pa.array(partitions_of_list(keys, self._definition.partitions))
        return slices_of([pa.RecordBatch.from_pydict({"partition": places, **arrays})])


def _encode(cell: Any, serde: Serde) -> bytes | None:
    """The bytes of a cell; a text is read as the type of the serde."""
    if isinstance(cell, msgspec.Raw):
        data = bytes(cell)
        if data == b"null":
            return None
        return data if serde.name == "json" else serde.encode(serde.from_json(_parsed(cell)))
    if cell is None:
        return None
    if isinstance(cell, str):
        return _encode_text(cell, serde)
    if serde.name == "json":
        return _encode_json(cell)
    if serde.name == "bytes" and isinstance(cell, bytes):
        return cell
    return serde.encode(serde.from_json(_finite(cell)))


def _parsed(raw: msgspec.Raw) -> Any:
    return parse_json(bytes(raw).decode())


def _finite(cell: Any) -> Any:
    """The cell, with the texts that StoreSink writes for numbers that JSON lacks."""
    match cell:
        case float() if not math.isfinite(cell):
            return _NOT_FINITE.get(cell, "NaN")
        case dict():
            return {name: _finite(one) for name, one in cell.items()}
        case list():
            return [_finite(one) for one in cell]
    return cell


def _known(value: Any) -> str:
    """The text of a time of pandas, which Arrow makes where there are nanoseconds."""
    made = getattr(value, "isoformat", None)
    if made is not None:
        return str(made())
    raise TypeError(f"JSON has no {type(value).__name__}")


_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=_known)


def _encode_json(cell: Any) -> bytes:
    try:
        return _ENCODER.encode(_finite(cell))
    except TypeError as error:
        raise MalformedRequestError(str(error)) from error


def _encode_text(text: str, serde: Serde) -> bytes:
    if serde.name in _TEXTS:
        return serde.encode(serde.from_json(str(text)))
    if serde.name == "json":
        return encode_text(text) if _is_json(text) else _encode_json(str(text))
    return serde.encode(serde.from_json(json_or_text(str(text))))


def _check_looks_whole(text: Text) -> None:
    """Raises MalformedRequestError for a field that begins as an object or array and is none."""
    if text.lstrip().startswith(("{", "[")) and not _is_json(text):
        raise MalformedRequestError(
            "it begins like JSON and is not JSON: mend it, or load the column as texts (--text)"
        )


def _is_json(text: str) -> bool:
    try:
        check_json_syntax(str(text))  # msgspec takes no subclass of str.
    except JSON_REFUSALS:
        return False
    return True


def _time(column: str, cells: Cells, *, is_needed: bool) -> int | None:
    """The milliseconds since 1970 of a cell, which is not before 1970 where it is needed."""
    time = _milliseconds(column, cells.get(column))
    if is_needed and time is None:
        raise MalformedRequestError(f'column "{column}" is null: each row needs a time')
    if is_needed and time is not None and time < 0:
        raise MalformedRequestError(f'column "{column}" is before 1970')
    return time


def _milliseconds(column: str, cell: Any) -> int | None:
    if isinstance(cell, msgspec.Raw):
        cell = _parsed(cell)
    if cell is None:
        return None
    if isinstance(cell, datetime):
        moment = cell if cell.tzinfo else cell.replace(tzinfo=UTC)  # As Arrow has it.
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return time_of_text(column, cell) if isinstance(cell, str) else time_of_json(column, cell)


def _check_length(what: str, data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise MalformedRequestError(f"the {what} has {len(data)} bytes, at most {limit} are stored")


def _camel(name: str) -> str:
    """The name of a time in `-o csv` and `-o ndjson`: windowStart for window_start."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
