"""A warehouse in a folder of its own, beside what a test writes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import pkray
from tests.integration.relational.changed_rows import Put, source


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path / "warehouse") as opened:
        yield opened


@pytest.fixture
def put(catalog: pkray.Catalog) -> Put:
    """Change the table default.t; give the snapshot's id."""
    return source(catalog, "default.t")
