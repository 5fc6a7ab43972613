"""The log of a program: one line a record, as text or as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """One JSON object a record, with the same members in pods and operators."""

    def __init__(self, text: logging.Formatter) -> None:
        """`text` formats the tracebacks of exceptions."""
        super().__init__()
        self._text = text

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self._text.formatException(record.exc_info)
        return json.dumps(line)


def configure_log(
    style: str, level: str, text_formatter: type[logging.Formatter] = logging.Formatter
) -> None:
    """Sends the log to standard error; `style` is text or json."""
    text = text_formatter(_TEXT)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(text) if style == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
