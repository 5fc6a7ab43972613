"""The error of a checkpoint whose files cannot be read."""

from qss_core.errors import StoreError


class CheckpointError(StoreError):
    """A file of a Spark checkpoint is missing, damaged, or of a form that is not known."""

    code, http_status = "CHECKPOINT", 400


class StateGoneError(CheckpointError):
    """A file is not there any more: Spark keeps only the newest batches."""


class UnknownTypeError(CheckpointError):
    """A column has a type that cannot be read; the columns of other parts can."""
