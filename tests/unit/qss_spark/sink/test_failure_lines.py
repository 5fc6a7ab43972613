"""The store's error in the trace of a failed Spark job."""

import traceback

import pytest

from qss_core.errors import StoreError, UnreachableError
from qss_spark.sink.failure_lines import words_of_executor

_SAID = "UNREACHABLE: pod 1 does not answer"
# As Spark prints a task's failure: at the driver's trace, and once more as its cause.
_SPARK = """An error occurred while calling o52.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed: \
org.apache.spark.api.python.PythonException: {trace}
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:572)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
Caused by: org.apache.spark.api.python.PythonException: {trace}
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


def ask() -> None:
    raise UnreachableError("pod 1 does not answer")


def trace_of(error: BaseException) -> str:
    """The error of a Python worker, as the driver gets it."""
    return _SPARK.format(trace="".join(traceback.format_exception(error)))


def raised_while_handling(error: BaseException) -> BaseException:
    try:
        try:
            ask()
        except StoreError:
            raise error  # noqa: B904 the store's error is no cause of it.
    except BaseException as raised:  # noqa: BLE001 any error fails a task.
        return raised
    raise AssertionError("it was raised")


def raised_from_a_store_error(error: BaseException) -> BaseException:
    try:
        try:
            ask()
        except StoreError as cause:
            raise error from cause
    except BaseException as raised:  # noqa: BLE001 any error fails a task.
        return raised
    raise AssertionError("it was raised")


def test_the_error_that_failed_a_task_is_told() -> None:
    with pytest.raises(StoreError) as raised:
        ask()
    assert words_of_executor(trace_of(raised.value)) == _SAID
    assert words_of_executor("An error occurred while calling o52.save.") is None


def test_a_store_error_that_was_handled_before_another_error_is_not_told() -> None:
    error = raised_while_handling(MemoryError("out of memory"))
    assert words_of_executor(trace_of(error)) is None


def test_a_store_error_that_is_the_cause_of_another_error_is_told() -> None:
    error = raised_from_a_store_error(RuntimeError("the batch failed"))
    assert words_of_executor(trace_of(error)) == _SAID
    with pytest.raises(ValueError, match="again") as raised:
        raise ValueError("again") from error
    assert words_of_executor(trace_of(raised.value)) == _SAID


def test_the_last_of_two_store_errors_is_told() -> None:
    error = raised_while_handling(UnreachableError("pod 2 does not answer"))
    assert words_of_executor(trace_of(error)) == "UNREACHABLE: pod 2 does not answer"


def test_a_message_that_quotes_a_store_error_is_not_one() -> None:
    error = ValueError("the log says:\nqss_core.errors.UnreachableError: pod 3 does not answer")
    assert words_of_executor(trace_of(error)) is None
