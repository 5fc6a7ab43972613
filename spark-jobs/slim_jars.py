"""Removes the parts of Spark's jars that stream jobs never load, in the build of the image."""

import platform
import sys
import zipfile
from pathlib import Path

# Hive and its metastore, machine learning, graphs, YARN, the Scala shell, Spark Connect's server.
UNUSED = (
    "connect-repl/**/*",
    "antlr-runtime-*",
    "arpack-*",
    "blas-*",
    "breeze*",
    "cats-kernel_*",
    "datanucleus-*",
    "derby*",
    "hive-beeline-*",
    "hive-cli-*",
    "hive-common-*",
    "hive-exec-*",
    "hive-jdbc-*",
    "hive-metastore-*",
    "hive-serde-*",
    "hive-service-rpc-*",
    "hive-shims-*",
    "jline-*",
    "lapack-*",
    "scala-compiler-*",
    "spark-connect_*",
    "spark-graphx_*",
    "spark-hive-thriftserver_*",
    "spark-hive_*",
    "spark-mllib*",
    "spark-repl_*",
    "spark-yarn_*",
    "spire*",
)
_MACHINES = {"x86_64": "linux64", "aarch64": "linux-aarch64"}


def main(jars: Path) -> None:
    """Deletes jars, and the native libraries of other systems from RocksDB's."""
    for pattern in UNUSED:
        for path in jars.glob(pattern):
            if path.is_file():
                path.unlink()
    (rocksdb,) = jars.glob("rocksdbjni-*.jar")
    keep_native_library(rocksdb, f"librocksdbjni-{_MACHINES[platform.machine()]}.so")


def keep_native_library(jar: Path, native_library: str) -> None:
    """Writes the jar anew with one native library."""
    draft = jar.with_suffix(".draft")
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if not entry.filename.startswith("librocksdbjni") or entry.filename == native_library:
                new.writestr(entry, old.read(entry))
    draft.replace(jar)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
