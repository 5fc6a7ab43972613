"""Writes small files atomically: to a temporary file, synced and then renamed."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from qss_operator.errors import StateDirectoryError
from qss_operator.resources.crd import FAST_LOADER

_BLOCK_BYTES = 512  # The smallest block of file systems.
_MEND = (
    "Mend its text; or stop `qss up`, move the file away, and give the store's file again: "
    "qss up FILE"
)
_MENDS = {
    "lock": "A `qss up` holds it: `fuser {file}` names its process, and `kill` ends it with its "
    "pods",
    "ports.yaml": "`qss down`, delete the file, and `qss up`: the pods get other ports",
    "process.yaml": "`qss down`, delete the file, and `qss up`",
}
_RESERVE_BYTES = 16 * 1024  # A status of some hundred partitions, and the next status.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def write_yaml(file: Path, value: Any, *, fills_block: bool = False) -> None:
    """Replace a YAML file atomically; `overwrite_yaml` keeps the size of one that `fills_block`."""
    text = _text_of(value).ljust(_BLOCK_BYTES if fills_block else 0, "\n")
    temporary = file.with_name(f"{file.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
        _sync_directory(file.parent)
    except OSError as error:
        with suppress(OSError):  # The written part takes room.
            temporary.unlink()
        raise unwritable(file, error) from error


def write_yaml_with_reserve(file: Path, value: Any) -> None:
    """As `write_yaml`; on a full disk the file takes the place of a reserve file beside it."""
    reserve = file.with_suffix(".reserve")
    try:
        write_yaml(file, value)
    except StateDirectoryError as error:
        if not is_full(error.__cause__) or not reserve.exists():
            raise
        reserve.unlink(missing_ok=True)
        write_yaml(file, value)
    finally:
        with suppress(OSError):  # Whatever room there is: a part of a reserve helps, too.
            if not reserve.exists() or reserve.stat().st_size < _RESERVE_BYTES:
                reserve.write_bytes(bytes(_RESERVE_BYTES))


def overwrite_yaml(file: Path, value: Any) -> None:
    """Write a small YAML file over its old content, in its own block: a full disk has room for it.

    Raises StateDirectoryError if the file does not exist, or a block would not hold the text.
    """
    text = _text_of(value).encode()
    try:
        descriptor = os.open(file, os.O_WRONLY)
    except OSError as error:
        raise unwritable(file, error) from error
    try:
        if max(len(text), os.fstat(descriptor).st_size) > _BLOCK_BYTES:
            raise StateDirectoryError(f"{file} cannot be overwritten: the text exceeds its block")
        # One write of one block: a reader sees the old content or the new one.
        os.pwrite(descriptor, text.ljust(_BLOCK_BYTES, b"\n"), 0)
        os.fsync(descriptor)
    except OSError as error:
        raise unwritable(file, error) from error
    finally:
        os.close(descriptor)


def overwrite(descriptor: int, content: bytes) -> None:
    """Writes over a file's content in its own block, as far as a block holds it.

    Readers see one write of it, with line breaks up to the end of the block. Raises OSError.
    """
    size = max(len(content), _BLOCK_BYTES, os.fstat(descriptor).st_size)
    os.pwrite(descriptor, content.ljust(size, b"\n"), 0)


def unwritable(file: Path, error: OSError) -> StateDirectoryError:
    """The error for a file that cannot be opened or written; for a full disk with the remedy."""
    what = ": free some MiB on its disk" if is_full(error) else ""
    return StateDirectoryError(f"{file} cannot be written: {error.strerror}{what}")


def is_full(error: BaseException | None) -> bool:
    """Whether the error is that of a disk, or of a share of it, that is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _text_of(value: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_DUMPER, sort_keys=False, default_flow_style=None, width=120
    )
    return text


def how_to_mend(file: Path) -> str:
    """The steps of a person with a damaged file of the state directory."""
    return _MENDS.get(file.name, _MEND).format(file=file)


def read_yaml(file: Path) -> Any:
    """The content of a YAML file; None if the file does not exist."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=FAST_LOADER)
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise StateDirectoryError(f"{file} is a directory: move it away") from error
    except OSError as error:
        raise StateDirectoryError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        why = " ".join(str(error).replace('in "<unicode string>",', "in").split())
        raise StateDirectoryError(f"{file} is damaged: {why}. {how_to_mend(file)}") from error


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
