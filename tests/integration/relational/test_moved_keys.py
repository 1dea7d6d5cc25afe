"""Queries over tables whose keys change partitions, and whose partitions are overwritten."""

from collections.abc import Callable, Iterator

import pytest

import pkray
from tests.integration.relational.changed_rows import content, rows_of

PRODUCERS = ("none", "input", "lookup", "full-compaction")
PLAIN = "SELECT k, p, v FROM t WHERE v > 0"
TOTALS = "SELECT p, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY p"
Row = tuple[int, int, int]


class Moved:
    """A table whose rows are (key, partition, value), and a query over it."""

    def __init__(self, catalog: pkray.Catalog, producer: str, text: str, workers: int) -> None:
        self.catalog, self.text = catalog, text
        catalog.sql(f"SET 'query.parallelism' = '{workers}'")
        self.table = catalog.create_table(
            "default.t",
            [("k", "INT"), ("p", "INT"), ("v", "INT")],
            ["k"],
            partition_keys=["p"],
            options={"bucket": "-1", "changelog-producer": producer},
        )
        self.put((1, 0, 5), (2, 0, 6), (3, 1, 7))
        self.query = catalog.sql(text).materialize("default.r")
        self.check()

    def put(self, *rows: Row, deleted: tuple[Row, ...] = ()) -> None:
        with self.table.open_writer() as writer:
            writer.upsert([dict(zip("kpv", row, strict=True)) for row in rows])
            if deleted:
                writer.delete([dict(zip("kpv", row, strict=True)) for row in deleted])
            writer.commit()
        self.table.compact()

    def check(self) -> None:
        """Compare the result with the bounded run, and with what verify says."""
        table = self.catalog.load_table("default.t")
        self.query.wait({"default.t": table.latest_snapshot().id})
        assert content(self.catalog) == rows_of(self.catalog.sql(self.text).to_arrow())
        assert self.query.verify().equal


@pytest.fixture
def moved(tmp_path) -> Iterator[Callable[..., Moved]]:
    with pkray.connect(tmp_path / "warehouse") as catalog:
        yield lambda *how: Moved(catalog, *how)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize(("text", "workers"), [(PLAIN, 1), (PLAIN, 3), (TOTALS, 2)])
def test_a_key_that_changes_its_partition_is_there_once(moved, producer, text, workers):
    made = moved(producer, text, workers)
    made.put((1, 1, 8))
    made.check()
    made.put((1, 0, 9), (3, 0, 2))
    made.check()
    made.query.stop()
    for row in ((1, 1, 3), (1, 2, 4), (1, 0, 5), (2, 2, 1)):  # several moves in one epoch
        made.put(row)
    made.query.resume()
    made.check()
    made.put((4, 1, 1), deleted=((1, 0, 5),))
    made.check()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("workers", [1, 3])
def test_partitions_that_are_overwritten_or_dropped_are_followed(tmp_path, producer, workers):
    with pkray.connect(tmp_path / "warehouse") as catalog:
        catalog.sql(f"SET 'query.parallelism' = '{workers}'")
        table = catalog.create_table(
            "default.t",
            [("k", "INT"), ("p", "INT"), ("v", "INT")],
            ["k", "p"],
            partition_keys=["p"],
            options={"changelog-producer": producer},
        )

        def rows(*found: Row) -> list[dict[str, int]]:
            return [dict(zip("kpv", row, strict=True)) for row in found]

        table.upsert(rows((1, 0, 1), (2, 0, 2), (3, 1, 3)))
        table.compact()
        query = catalog.sql(PLAIN).materialize("default.r")
        for expected in (
            (table.overwrite, (rows((1, 0, 9), (5, 0, 5)),)),
            (table.drop_partitions, ([{"p": 1}],)),
            (table.overwrite, (rows((7, 1, 7)), {})),
        ):
            change, given = expected
            change(*given)
            table.compact()
            query.wait({"default.t": table.latest_snapshot().id})
            assert rows_of(catalog.load_table("default.r").to_arrow()) == rows_of(
                catalog.sql(PLAIN).to_arrow()
            )
            assert query.verify().equal
