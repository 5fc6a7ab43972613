"""What all simulated pods have."""

import pytest

from qss_store import applying, index_building
from qss_store.applying import SliceLimits
from qss_testing.plots import INDEXED_SLICE_ROWS, SLICE_ROWS


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows take several writes."""
    indexed = SliceLimits(INDEXED_SLICE_ROWS)
    monkeypatch.setattr(applying, "USUAL_LIMITS", SliceLimits(SLICE_ROWS))
    monkeypatch.setattr(applying, "INDEXED_LIMITS", indexed)
    monkeypatch.setattr(index_building, "INDEXED_LIMITS", indexed)
