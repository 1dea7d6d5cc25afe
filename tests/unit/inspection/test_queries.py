"""What the console shows of one query."""

import time

import pytest

from pkray.errors import QueryCancelledError
from pkray.inspection import queries

DEADLINE_SECONDS = 60
SQL = "SELECT v % 3 AS s, COUNT(*) AS n FROM d.t GROUP BY v % 3"


@pytest.fixture
def catalog(catalog):
    table = catalog.create_table("d.t", [("k", "INT"), ("v", "INT")], ["k"])
    table.upsert([{"k": k, "v": k} for k in range(10)])
    made = catalog.sql(SQL).materialize("d.r")
    made.wait({"d.t": table.latest_snapshot().id}, timeout=DEADLINE_SECONDS)
    yield catalog
    made.stop()


def test_a_result_is_compared(catalog):
    assert queries.verify(catalog, "d.r")["equal"] is True


def test_a_comparison_ends_when_its_time_is_over(catalog, monkeypatch):
    deadline, relation = time.monotonic() + DEADLINE_SECONDS, catalog.sql(SQL)

    def endless(*_, **__):
        while time.monotonic() < deadline:
            yield from relation.to_batches()

    monkeypatch.setattr("pkray.relational.continuous.queries.verification.verify._bounded", endless)
    with pytest.raises(QueryCancelledError, match=r"verify d\.r takes more than 0\.2 s"):
        queries.verify(catalog, "d.r", seconds=0.2)
    monkeypatch.undo()
    assert queries.verify(catalog, "d.r")["equal"] is True
