"""Nexmark's queries, kept up to date, each proved against the same query run once."""

from collections.abc import Iterator

import pytest

import pkray
from pkray.relational import changelog
from pkray.relational.plan.nodes import Scan
from tests.nexmark.generator import SCHEMAS, Nexmark
from tests.nexmark.queries import QUERIES

EVENTS, EPOCHS = 2_000, 4
SOURCE = Nexmark(seed=7, rate=50)
"""Forty seconds of event time."""


class Site:
    """The three streams, as views of a catalog."""

    def __init__(self, catalog: pkray.Catalog) -> None:
        self.catalog = catalog
        self.streams = {
            name: changelog(
                schema, watermark=("dateTime", "dateTime - INTERVAL '4' SECOND"), name=name
            )
            for name, schema in SCHEMAS.items()
        }
        for name, stream in self.streams.items():
            catalog.create_view(name, stream, temporary=True)
        self.epochs = 0

    def push(self) -> None:
        size = EVENTS // EPOCHS
        for name, rows in SOURCE.events(self.epochs * size, size).items():
            self.streams[name].push(rows)
        self.epochs += 1

    def finish(self) -> None:
        for stream in self.streams.values():
            stream.finish()


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    with pkray.connect(tmp_path / "warehouse") as catalog:
        yield Site(catalog)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", QUERIES)
def test_a_result_is_proved_after_every_epoch_and_at_the_end(site, name):
    relation = site.catalog.sql(QUERIES[name], dialect="flink")
    read = {node.source.name for node in relation.plan.walk() if isinstance(node, Scan)}
    query = relation.materialize("default.result")
    for _ in range(EPOCHS):
        site.push()
        query.wait(dict.fromkeys(read, site.epochs))
        report = query.verify()
        assert report.equal, f"{report}\n{report.missing}\n{report.extra}"
    site.finish()
    query.wait_ended()
    report = query.verify()
    assert report.equal, f"{report}\n{report.missing}\n{report.extra}"
    assert site.catalog.load_table("default.result").at().count() > 0
    assert query.status()["late"] == 0


def test_an_event_does_not_depend_on_what_it_is_made_with():
    whole = SOURCE.events(0, 300)
    parts = [SOURCE.events(first, 100) for first in range(0, 300, 100)]
    for name in SCHEMAS:
        assert whole[name].to_pylist() == [row for each in parts for row in each[name].to_pylist()]
    assert Nexmark(seed=8).events(0, 50)["bid"] != Nexmark(seed=7).events(0, 50)["bid"]


def test_there_are_three_auctions_and_46_bids_a_person():
    made = SOURCE.events(0, 500)
    assert [made[name].num_rows for name in SCHEMAS] == [10, 30, 460]
    assert made["person"]["id"].to_pylist() == list(range(1000, 1010))
    assert made["auction"]["id"].to_pylist() == list(range(1000, 1030))


def test_most_rows_are_of_hot_ids():
    made = Nexmark().events(50_000, 50_000)
    hot = {("bid", "auction"): 0.5, ("bid", "bidder"): 0.75, ("auction", "seller"): 0.75}
    for (name, column), share in hot.items():
        ids = made[name][column].to_numpy()
        found = ((ids - 1000) % 100 == (1 if column == "bidder" else 0)).mean()
        assert found == pytest.approx(share, abs=0.03)
