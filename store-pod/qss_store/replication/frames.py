"""A part of a snapshot's file on its way to a learner: frames, each with its own CRC-32.

A frame is the number of its bytes and their CRC-32 (RFC 1952), both with 4 bytes and the highest
first, and then the bytes. So the learner writes nothing that arrived damaged, and after a lost
connection it goes on behind the last frame that it wrote.
"""

import struct
from collections.abc import Callable
from io import BufferedIOBase

from zlib_ng.zlib_ng import crc32

from qss_core.errors import CorruptionError

FRAME_BYTES_MAX = 1024 * 1024
_HEAD = struct.Struct(">II")


def frame_of(source: BufferedIOBase, size: int) -> memoryview:
    """A frame of the next `size` bytes of a source; empty where it has fewer."""
    frame = memoryview(bytearray(_HEAD.size + size))
    data = frame[_HEAD.size :]
    if source.readinto(data) != size:
        return frame[:0]
    _HEAD.pack_into(frame, 0, size, crc32(data))
    return frame


def frames_bytes(size: int) -> int:
    """The bytes of all frames of a part of `size` bytes."""
    return size + _HEAD.size * -(-size // FRAME_BYTES_MAX)


def read_frames(source: BufferedIOBase, write: Callable[[memoryview], object]) -> None:
    """Gives the bytes of each whole frame to `write`; raises CorruptionError for another one."""
    buffer = memoryview(bytearray(FRAME_BYTES_MAX))
    head = memoryview(bytearray(_HEAD.size))
    while _fill(source, head):
        size, checksum = _HEAD.unpack(head)
        if not 0 < size <= FRAME_BYTES_MAX:
            raise CorruptionError(f"a part of a file arrived with a frame of {size} bytes")
        data = buffer[:size]
        if not _fill(source, data) or crc32(data) != checksum:
            raise CorruptionError("a part of a file arrived damaged")
        write(data)


def _fill(source: BufferedIOBase, buffer: memoryview) -> bool:
    """Whether the source had bytes; it has to have all of them, or none."""
    filled = 0
    while filled < len(buffer):
        if not (found := source.readinto(buffer[filled:])):
            break
        filled += found
    if 0 < filled < len(buffer):
        raise CorruptionError("a part of a file ended within a frame")
    return filled > 0
