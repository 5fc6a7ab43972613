"""The message with which the operator has a pod delete a replica that it no longer needs."""

from qss_core.model import Epoch, PartitionId, StoreId, Wire


class RetireRequest(Wire, frozen=True, kw_only=True):
    """Every replica of the partition holds the configuration of `epoch`, which lacks this pod."""

    store_id: StoreId
    partition: PartitionId
    epoch: Epoch
