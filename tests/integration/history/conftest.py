from collections.abc import Iterator
from pathlib import Path

import pytest
from history_samples import create, put

import pkray


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Three snapshots of ``db.t``, the second one tagged; files that want others make their own."""
    create(tmp_path / "w")
    with pkray.connect(str(tmp_path / "w")) as catalog:
        table = catalog.load_table("db.t")
        for turn in range(3):
            put(table, {turn: "main", 100: f"turn {turn}"})
        table.tags.create("second", 2)
    return tmp_path / "w"


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(warehouse) as catalog:
        yield catalog


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    """The table of the `warehouse`."""
    return catalog.load_table("db.t")
