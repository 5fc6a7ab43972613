"""Writes small files atomically: to a temporary file, synced and then renamed."""

import os
from pathlib import Path
from typing import Any

import yaml

from qss_operator.errors import StateDirectoryError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def write_yaml(file: Path, value: Any) -> None:
    """Replace a YAML file atomically."""
    text = yaml.dump(value, Dumper=_DUMPER, sort_keys=False, default_flow_style=None, width=120)
    temporary = file.with_name(f"{file.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
        _sync_directory(file.parent)
    except OSError as error:
        raise StateDirectoryError(f"{file} cannot be written: {error.strerror}") from error


def read_yaml(file: Path) -> Any:
    """The content of a YAML file; None if the file does not exist."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateDirectoryError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        why = " ".join(str(error).replace('in "<unicode string>",', "in").split())
        raise StateDirectoryError(
            f"{file} is damaged: {why}. Move it away to begin anew"
        ) from error


def make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateDirectoryError(f"{directory} cannot be made: {error.strerror}") from error


def holds_files(directory: Path) -> bool:
    """Whether a directory exists and is not empty."""
    try:
        return any(directory.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateDirectoryError(
            f"{directory} cannot be read: {error.strerror}: let this user read it, or move it away"
        ) from error


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
