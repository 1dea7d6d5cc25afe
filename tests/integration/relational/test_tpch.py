"""TPC-H's queries over keyed tables, on the local engine, against DuckDB's answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import pkray
from tests.tpch.generator import NUMBERS, Tpch, differences


@pytest.fixture(scope="module")
def tpch() -> Tpch:
    return Tpch(0.01)


@pytest.fixture(scope="module")
def catalog(tpch: Tpch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pkray.Catalog]:
    folder: Path = tmp_path_factory.mktemp("tpch")
    with pkray.connect(folder) as catalog:
        tpch.fill(catalog)
        yield catalog


@pytest.mark.parametrize("number", NUMBERS)
def test_a_query_gives_the_answer(number: int, tpch: Tpch, catalog: pkray.Catalog) -> None:
    result = catalog.sql(tpch.queries[number]).to_arrow()
    assert differences(result, tpch.answer(number)) == []
