"""The commands of `qss` load no Spark."""

import subprocess
import sys

import pytest

import qss_spark


@pytest.mark.parametrize("commands", ["qss_spark.commands", "qss_spark.mirroring.commands"])
def test_the_commands_of_qss_load_no_spark(commands: str) -> None:
    program = f"import sys, {commands}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert qss_spark.StoreSink.__name__ == "StoreSink"
    assert qss_spark.StoreSinks.__name__ == "StoreSinks"
    with pytest.raises(AttributeError, match="'qss_spark' has no attribute 'Sink'"):
        _ = qss_spark.Sink
