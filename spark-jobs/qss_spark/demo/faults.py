"""Makes faults while a job streams: one pod is killed, and later one is added."""

from collections.abc import Callable

from qss_spark.demo.processes import ProgramError, run_qss

_KILLED_AT = 1 / 3  # Shares of the stream.
_ADDED_AT = 2 / 3


class Faults:
    """The faults of one store's stream, each of which is made once."""

    def __init__(self, store: str, pods: int, cluster: tuple[str, ...]) -> None:
        """`pods` is the store's number of pods, `cluster` the options that name the cluster.

        The pod of partition 0 is killed, as it coordinates the batches of all partitions.
        """
        self._cluster = cluster
        self._due = [
            (_KILLED_AT, ("kill", f"{store}-0")),
            (_ADDED_AT, ("scale", store, str(pods + 1))),
        ]

    def make(self, share: float, tell: Callable[[str], object]) -> None:
        """Makes the faults that are due when that share of the stream is read.

        `tell` gets what each command says, and why one could not be carried out.
        """
        while self._due and share >= self._due[0][0]:
            _, arguments = self._due.pop(0)
            try:
                said = run_qss(*arguments, *self._cluster)
            except ProgramError as error:
                said = str(error)
            tell(said.partition(";")[0].strip())
