"""Where Spark's classes lie as a JVM wants them in memory: a driver starts with half the work.

An archive is made by `python -m qss_spark.jvm_cds_training` (JEP 310, JEP 350), lives in the Python
environment beside the Spark that it is of, and is for one Java. The JVM itself refuses an archive
of other jars or another build.
"""

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyspark

# An archive that does not fit is passed over without a word.
_QUIET = "-Xlog:cds*=off"


@dataclass(frozen=True, slots=True)
class JvmCdsArchive:
    """Two files, each of which may be missing: Java's own classes, and on top of them Spark's."""

    java: Path
    spark: Path

    def added_to(self, options: str) -> str:
        """A JVM's options, with the archive where there is one and they name none."""
        if "SharedArchiveFile" in options or not self.can_be_named or not self.spark.is_file():
            return options
        option = quoted(f"-XX:SharedArchiveFile={self.spark}")
        return f"{options} {option} {_QUIET}".strip()

    @property
    def can_be_named(self) -> bool:
        """To a JVM a colon in the option stands between two archives."""
        return ":" not in str(self.spark)


def quoted(option: str) -> str:
    """As one of several in `spark.driver.extraJavaOptions`, also where it has spaces."""
    if not any(sign.isspace() or sign in "\"'\\" for sign in option):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def class_archive(home: Path, prefix: Path = Path(sys.prefix)) -> JvmCdsArchive:
    """The archive of a Java home, in the environment at `prefix`; it need not be there.

    Raises subprocess.SubprocessError and OSError for a home whose Java does not run.
    """
    said = subprocess.run(
        [home / "bin" / "java", "-version"], capture_output=True, timeout=30, check=True
    )
    of = f"{home} {pyspark.__version__} {pyspark.__file__}".encode() + said.stderr
    directory = _directory(prefix) / hashlib.sha256(of).hexdigest()[:16]
    return JvmCdsArchive(directory / "java.jsa", directory / "spark.jsa")


def with_archive(options: str, home: Path, prefix: Path = Path(sys.prefix)) -> str:
    """A JVM's options, with the archive of its Java where there is one; it is no need."""
    if not _directory(prefix).is_dir():
        return options
    try:
        return class_archive(home, prefix).added_to(options)
    except (OSError, subprocess.SubprocessError):
        return options


def _directory(prefix: Path) -> Path:
    return prefix / "share" / "queryable-state"
