from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pkray


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(warehouse) as catalog:
        yield catalog


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    """The table of the file's `warehouse`."""
    return catalog.load_table("db.t")
