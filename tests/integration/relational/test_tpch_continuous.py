"""TPC-H's queries as materialised tables while orders and line items change, against DuckDB."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import pkray
from pkray.relational.sources.changelog import ROW_KIND
from tests.tpch.changing import ChangingTpch
from tests.tpch.generator import KEYS, NUMBERS, differences

IN_EVERY_RUN = (3, 13, 15, 18, 21, 22)
"""Top-n, outer join, a greatest total, IN, EXISTS and NOT EXISTS, a scalar subquery."""


@pytest.mark.parametrize(
    ("numbers", "epochs"),
    [
        pytest.param(IN_EVERY_RUN, 3, id="six"),
        pytest.param(NUMBERS, 30, id="all", marks=pytest.mark.slow),
    ],
)
def test_materialised_queries_give_the_answers_at_every_epoch(
    numbers: Sequence[int], epochs: int, tmp_path: Path
) -> None:
    tpch = ChangingTpch(0.01)
    with pkray.connect(tmp_path) as catalog:
        materialised = Materialised(tpch, catalog, numbers)
        assert materialised.differences() == {}
        for _ in range(epochs):
            materialised.write(tpch.change())
            assert materialised.differences() == {}
        materialised.stop()


class Materialised:
    """TPC-H's queries as tables; without their ORDER BY, but for those with a LIMIT."""

    def __init__(self, tpch: ChangingTpch, catalog: pkray.Catalog, numbers: Sequence[int]) -> None:
        self._tpch = tpch
        self._catalog = catalog
        self._texts = {number: _unordered(tpch.queries[number]) for number in numbers}
        self._reads = {number: _tables_in(text) for number, text in self._texts.items()}
        self._tables = {name: self._create(name) for name in set().union(*self._reads.values())}
        self._snapshots: dict[str, int] = {}
        self.write(tpch.begin())
        self._queries = {
            number: catalog.sql(text).materialize(f"default.q{number}")
            for number, text in self._texts.items()
        }

    def _create(self, name: str) -> pkray.Table:
        options = {"bucket": "1", "changelog-producer": "lookup"}
        schema = self._tpch.table(name).schema
        return self._catalog.create_table(f"default.{name}", schema, KEYS[name], options=options)

    def write(self, changes: Mapping[str, pa.Table]) -> None:
        """Commit the changes of those tables that the queries read."""
        for name in changes.keys() & self._tables.keys():
            with self._tables[name].open_writer() as writer:
                writer.write(changes[name], row_kinds=ROW_KIND)
                snapshot = writer.commit()
            assert snapshot is not None
            self._snapshots[name] = int(snapshot.id)

    def differences(self) -> dict[int, list[str]]:
        """Give how queries differ from their answers, once they have taken what was written."""
        for number, query in self._queries.items():
            query.wait({f"default.{name}": self._snapshots[name] for name in self._reads[number]})
        found = {
            number: differences(self._result(number), self._tpch.answer(number))
            for number in self._queries
        }
        return {number: wrong for number, wrong in found.items() if wrong}

    def _result(self, number: int) -> pa.Table:
        rows = self._catalog.load_table(f"default.q{number}").to_arrow()
        return rows.select([name for name in rows.column_names if name != "_row_key"])

    def stop(self) -> None:
        for query in self._queries.values():
            query.stop()


def _unordered(text: str) -> str:
    return text if "LIMIT" in text else text.partition("\nORDER BY")[0]


def _tables_in(text: str) -> list[str]:
    return [name for name in KEYS if re.search(rf"\b{name}\b", text)]
