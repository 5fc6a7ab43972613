"""Makes the type of a store of a user's own type, for the replicas of a pod."""

import logging

from qss_core.errors import StoreError, StoreTypeRefusedError
from qss_core.model import StoreDefinition
from qss_store.runtime.plugins import Extensions
from qss_store.storage.index_keys import Indexing, indexing_of

_LOG = logging.getLogger(__name__)


class OwnType:
    """The indexes of a store's own type, made once: the type and its options never change."""

    def __init__(self, extensions: Extensions) -> None:
        """The type is made when the store's definition comes."""
        self._extensions = extensions
        self.indexing: Indexing | None = None  # Only a store of a user's own type has one.
        self.refusal: StoreError | None = None  # Reads of replicas that the pod opened raise it.

    def take(self, definition: StoreDefinition) -> None:
        """Makes the type; raises StoreTypeRefusedError where that fails."""
        if self.indexing is None:
            self.indexing = indexing_of(definition, self._extensions)

    def remember(self, definition: StoreDefinition) -> None:
        """Makes the type of a kept definition; where that fails, `refusal` is the reason."""
        try:
            self.take(definition)
        except StoreTypeRefusedError as error:
            if self.refusal is None:
                _LOG.error("the store cannot be served: %s", error.message)
            self.refusal = error

    def remake(self, definition: StoreDefinition) -> None:
        """Makes the type of another definition than before, as `remember` does."""
        self.indexing = self.refusal = None
        self.remember(definition)
