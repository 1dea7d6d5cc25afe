from __future__ import annotations

import pytest

from pkray.lsm import memtable, merge_read, upper_lookup


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut rows into many slices and blocks, as large data is."""
    monkeypatch.setattr(merge_read, "SLICE_ROWS", 8)
    monkeypatch.setattr(merge_read, "MIN_READ_ROWS", 2)
    monkeypatch.setattr(merge_read, "READ_ROWS", 3)
    monkeypatch.setattr(memtable, "BLOCK_KEYS", 3)
    monkeypatch.setattr(upper_lookup, "READ_ROWS", 3)
