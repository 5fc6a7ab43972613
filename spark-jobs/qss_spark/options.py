"""The options of the data source, and how a batch travels from the driver to its tasks."""

from collections.abc import Mapping

from qss_client.writing import Run
from qss_core.errors import MalformedRequestError, UnknownParameterError
from qss_core.model import Wire
from qss_core.wire import PositionJson, WriterOpened, decode, encode
from qss_spark.rows import Columns

WRITE_OPTIONS = ("url", "store", "keyColumns", "valueColumns")
READ_OPTIONS = ("url", "store", "key", "from", "to", "prefix", "partitions", "positionBound")
BATCH_OPTION = "queryablestate.batch"  # Set by StoreSink, never by people.


class SinkBatch(Wire, frozen=True, kw_only=True):
    """One micro-batch that StoreSink has begun."""

    store: str
    writer: str
    opened: WriterOpened
    batch: int
    position: PositionJson
    fingerprint: str
    replace: bool

    @property
    def run(self) -> Run:
        """The opened writer."""
        return Run(self.store, self.writer, self.opened)

    def encode(self) -> str:
        """As the text of an option."""
        return encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> "SinkBatch":
        """From the text of an option."""
        return decode(text.encode(), cls)


def required(options: Mapping[str, str], name: str) -> str:
    """An option that must be there."""
    value = options.get(name)
    if not value:
        raise MalformedRequestError(f"option {name!r} is missing: .option({name!r}, ...)")
    return value


def check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuses an option that does nothing; Spark gives the names in lower case."""
    allowed = {name.lower() for name in known} | {"path"}
    for name in options:
        if name.lower() not in allowed:
            raise UnknownParameterError(f"option {name!r} is unknown: {', '.join(sorted(known))}")


def columns_of(options: Mapping[str, str]) -> Columns:
    """The key and value columns."""
    return Columns.parse(options.get("keyColumns"), options.get("valueColumns"))
