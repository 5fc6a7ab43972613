"""The options of the data source, and the batch that the driver sends to its tasks."""

from collections.abc import Mapping
from dataclasses import dataclass

from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import Run
from qss_core.errors import MalformedRequestError, UnknownParameterError
from qss_core.model import StoreDefinition, StoreType, Wire
from qss_core.positions import PositionJson
from qss_core.wire.messages import WriterOpened, decode, encode
from qss_spark.rows import Columns

ACCESS_OPTIONS = ("tokenFile", "caFile")
WRITE_OPTIONS = ("url", "store", "keyColumns", "valueColumns", "timestamp", *ACCESS_OPTIONS)
BOUND_OPTIONS = (
    *("key", "keys", "prefix", "from", "to", "index"),
    *("keyFrom", "keyTo", "endFrom", "startTo"),
)
# The options that choose keys, by the type of the store's rows.
KEY_OPTIONS: dict[StoreType, tuple[str, ...]] = {
    StoreType.KEY_VALUE: ("key", "keys", "prefix", "from", "to", "index"),
    StoreType.WINDOW: ("key", "keys", "keyFrom", "keyTo"),
    StoreType.SESSION: ("key", "keys", "keyFrom", "keyTo"),
}
KEYS_MAX = 1000  # The most keys of one read: each key is a request to its pod.
READ_OPTIONS = (
    "url",
    "store",
    *BOUND_OPTIONS,
    "partitions",
    "positionBound",
    "isolation",
    *ACCESS_OPTIONS,
)
BATCH_OPTION = "queryablestate.batch"  # Set by StoreSink only.


@dataclass(frozen=True, slots=True)
class Access:
    """The paths of token and authorities on each machine: tasks get paths, never secrets."""

    token_file: str | None = None
    ca_file: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Access":
        """Reads the options; their names are case-insensitive."""
        return cls(options.get("tokenFile"), options.get("caFile"))

    @property
    def options(self) -> dict[str, str]:
        given = {"tokenFile": self.token_file, "caFile": self.ca_file}
        return {name: value for name, value in given.items() if value is not None}

    def http(self) -> SyncHttp:
        return SyncHttp(token_file=self.token_file, ca_file=self.ca_file)


class SinkBatch(Wire, frozen=True, kw_only=True):
    """A micro-batch that StoreSink has begun, or the batch of a batch job."""

    store: str
    writer: str
    opened: WriterOpened
    batch: int
    position: PositionJson
    fingerprint: str
    replace: bool
    warns: bool = True  # Whether to warn of unaligned windows: once per run.
    one_off: bool = False  # A batch job's: its tasks keep the run open.

    @property
    def run(self) -> Run:
        return Run(self.store, self.writer, self.opened)

    @property
    def definition(self) -> StoreDefinition:
        """The store's definition when the writer was opened."""
        return self.opened.metadata.definition

    def encode(self) -> str:
        """The text of the option for this batch."""
        return encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> "SinkBatch":
        """The batch in the text of the option."""
        return decode(text.encode(), cls)


def required(options: Mapping[str, str], name: str) -> str:
    """The value of a required option. Raises MalformedRequestError where it is missing."""
    value = options.get(name)
    if not value:
        raise MalformedRequestError(f"option {name!r} is missing: .option({name!r}, ...)")
    return value


def store_of(options: Mapping[str, str]) -> str:
    """The store's name: the option `store`, or the argument of `load` and `save`."""
    return options.get("store") or options.get("path") or required(options, "store")


def check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raises UnknownParameterError for an unknown option; Spark gives names in lower case."""
    allowed = {name.lower() for name in known} | {"path"}
    for name in options:
        if name.lower() not in allowed:
            raise UnknownParameterError(f"option {name!r} is unknown: {', '.join(sorted(known))}")


def columns_of(options: Mapping[str, str]) -> Columns:
    """The columns of key and value, and the source of timestamps."""
    return Columns.parse(
        options.get("keyColumns"), options.get("valueColumns"), options.get("timestamp")
    )
