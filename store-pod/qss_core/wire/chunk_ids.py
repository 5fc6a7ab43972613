"""Names of task attempts, and the chunk ids that carry them.

A chunk id is `<writer epoch>.<task attempt>.<number>`. A task attempt is named
`t<task>a<attempt>-<group>`: task and attempt are numbers, a later attempt of a task has a larger
attempt number, and a group is a part of the attempt's rows. Any other name (letters, digits, `_`
and `-`) is the name of a task with the single attempt 0.
"""

import re
from typing import NamedTuple

from qss_core.errors import MalformedRequestError
from qss_core.model import WriterEpoch

_CHUNK = re.compile(r"([0-9]{1,19})\.([A-Za-z0-9_-]{1,100})\.([0-9]{1,9})")
_ATTEMPT = re.compile(r"(t[0-9]{1,19})a([0-9]{1,19})-[0-9]{1,19}")


class ChunkId(NamedTuple):
    """The parts of a chunk id: the writer epoch, the task and its attempt."""

    writer_epoch: WriterEpoch
    task: str
    attempt: int  # 0 where the id has no attempt.


def name_attempt(task: int, attempt: int) -> str:
    """The name of a task attempt; `name_group` names its groups."""
    return f"t{task}a{attempt}"


def name_group(task_attempt: str, group: int) -> str:
    """The name of a part of a task attempt's rows."""
    return f"{task_attempt}-{group}"


def encode_chunk_id(writer_epoch: WriterEpoch, task_attempt: str, number: int) -> str:
    """The id of a chunk; `decode_chunk_id` reads it."""
    return f"{writer_epoch}.{task_attempt}.{number}"


def decode_chunk_id(text: str) -> ChunkId:
    """The parts of a chunk id. Raises MalformedRequestError."""
    match = _CHUNK.fullmatch(text)
    if match is None:
        raise MalformedRequestError("a chunk id is <writer epoch>.<task attempt>.<number>")
    epoch = WriterEpoch(int(match[1]))
    attempt = _ATTEMPT.fullmatch(match[2])
    if attempt is None:
        return ChunkId(epoch, match[2], 0)
    return ChunkId(epoch, attempt[1], int(attempt[2]))
