"""A log line has the type and place of an exception, not its text, which may quote a row."""

import asyncio
import logging

import pytest

from qss_client.log_format import JsonFormatter
from qss_core.errors import CorruptionError, MalformedRequestError
from qss_store.runtime.log_format import TextFormatter, tell_unexpected, told_exception

ROW = "".join(("SEC", "RET"))  # Put together, so that no line of code contains it.


def fail(*, ours: bool) -> None:
    try:
        int(ROW)
    except ValueError as error:
        if ours:
            raise CorruptionError("block 7 is damaged") from error
        raise MalformedRequestError(f"{ROW} is no number") from error


def raised(*, ours: bool) -> BaseException:
    with pytest.raises((CorruptionError, MalformedRequestError)) as told:
        fail(ours=ours)
    return told.value


def record(error: BaseException) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__)
    return logging.LogRecord("x", logging.ERROR, "", 0, "it failed", (), info)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter(TextFormatter())])
def test_an_exception_is_told_by_its_type_and_place(formatter: logging.Formatter) -> None:
    told = formatter.format(record(raised(ours=False)))
    assert ROW not in told
    assert "ValueError" in told
    assert "MalformedRequestError" in told
    assert "in fail" in told


def test_the_text_of_our_own_errors_stays() -> None:
    told = told_exception(raised(ours=True))
    assert "CorruptionError: block 7 is damaged" in told
    assert told.index("ValueError") < told.index("CorruptionError")


async def test_an_exception_that_nobody_took_is_told_alike(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    error = raised(ours=False)
    tell_unexpected(loop, {"message": "nobody took it", "exception": error, "future": error})
    (told,) = caplog.records
    assert told.getMessage() == "nobody took it"
    assert told.exc_info is not None
    assert told.exc_info[1] is error
