"""Warehouses to be damaged, and the counts of what they survived."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import pkray

_numbers = itertools.count()


@pytest.fixture
def new_root(tmp_path) -> Callable[[str], str]:
    """A root for a warehouse that is not there yet, on ``disk`` or in ``memory``."""

    def make(kind: str) -> str:
        number = next(_numbers)
        return str(tmp_path / f"w{number}") if kind == "disk" else f"memory://faults-{number}"

    return make


@pytest.fixture
def process(tmp_path) -> Callable[[str], pkray.Catalog]:
    """A warehouse as a process that has just begun sees it."""
    opened: list[pkray.Catalog] = []

    def begin(root: str) -> pkray.Catalog:
        options = {"owners": 1, "local_directory": str(tmp_path / "local")}
        catalog = pkray.connect(root, runtime_options=options)
        opened.append(catalog)
        return catalog

    return begin


@pytest.fixture
def survived(record_property) -> Callable[[str], None]:
    """Say a count at the end of the run."""
    return lambda line: record_property("survived", line)
