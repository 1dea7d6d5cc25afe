"""How public objects print: one useful line, HTML in notebooks, and never a secret or markup."""

import html
from html.parser import HTMLParser
from typing import Any

import pytest

import pkray

MARKUP = "<img src=x onerror=alert(1)>&\"'"


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    columns = [("id", "BIGINT"), (MARKUP, "STRING")]
    table = catalog.create_table("db.<i>t", columns, ["id"], comment=MARKUP)
    table.upsert([{"id": 1, MARKUP: "v"}], commit_user="job", commit_identifier=7)
    table.tags.create("v1")
    return table


def objects(catalog: pkray.Catalog, table: pkray.Table) -> list[Any]:
    writer = table.open_writer("job")
    return [
        catalog, table, writer, table.tags, table.branches, table.consumers, table.alter,
        table.view(), table.open_push("p", 1), table.stream(), table.splits()[0], table.schema,
        table.explain(filter=[(MARKUP, "=", MARKUP)]), table.latest_snapshot(),
        table.tags.get("v1"), table.schema.fields[1], table.schema.fields[1].type,
        catalog.load_table("db.<i>t$files"), table.expire_snapshots(),
        table.compact_dedicated(full=True), table.rollback_to(1),
    ]  # fmt: skip


def test_every_object_prints_as_one_line(catalog, table):
    for each in objects(catalog, table):
        assert type(each).__name__ in repr(each)
        assert "\n" not in repr(each)
        assert " object at 0x" not in repr(each)
        assert len(repr(each)) < 400


def test_what_is_printed_says_what_it_is(catalog, table):
    assert repr(table.tags) == "Tags('db.<i>t')"
    assert repr(table.open_writer("job")) == "TableWriter('job', open)"
    assert repr(table.latest_snapshot()).startswith("Snapshot(1, APPEND, 'job', 7, 20")
    assert repr(table.tags.get("v1")) == "Tag('v1', snapshot 1)"
    assert repr(table.schema.field("id")) == "DataField(0, 'id', 'BIGINT NOT NULL')"
    assert repr(table.view()) == "SnapshotView(snapshot 1, 2 columns)"
    assert repr(table.splits()[0]) == "Split('db.<i>t', bucket=0, files=1, rows=1)"


DRAWN = {"svg", "g", "path", "rect", "text", "title"}
LOOKS = {
    *(
        "xmlns",
        "width",
        "height",
        "viewbox",
        "role",
        "aria-label",
        "transform",
        "d",
        "x",
        "y",
        "rx",
    ),
    *("font-family", "font-size", "font-weight", "fill", "fill-opacity"),
    *("stroke", "stroke-opacity"),
}
"""Attributes of drawings: none of them loads, links or runs anything."""


class Tags(HTMLParser):
    """The names of a page's tags, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        assert tag in DRAWN or not attrs
        assert {name for name, _ in attrs} <= LOOKS

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_holds_what_there_is_and_no_markup_of_names_and_values(catalog, table):
    pages = [each._repr_html_() for each in objects(catalog, table) if hasattr(each, "_repr_html_")]
    assert len(pages) == 7
    for page in pages:
        parser = Tags()
        parser.feed(page)
        assert parser.tags <= {"table", "caption", "thead", "tbody", "tr", "td", "th"} | DRAWN
    parser = Tags()
    parser.feed(table.at()._repr_html_())
    assert "SnapshotView(snapshot 1, 2 columns)" in parser.text
    assert MARKUP in parser.text
    parser = Tags()
    parser.feed(table._repr_html_())
    assert parser.text.count(MARKUP) == 2
    assert "primary key" in parser.text


def test_a_warehouse_prints_without_its_secrets():
    options = {"access_key_id": "hush-id", "secret_access_key": "hush-key", "region": "x"}
    with pkray.connect("s3://bucket/warehouse", **options) as catalog:
        assert repr(catalog) == "Catalog('s3://bucket/warehouse', LocalRuntime)"


def drawn(page: str) -> str:
    """The text of a page's drawing."""
    parser = Tags()
    parser.feed(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])
    return parser.text


def test_a_table_is_shown_with_the_levels_of_its_buckets(table):
    assert "bucket 0" in drawn(table._repr_html_())
    assert "1 rows, 1 files" in drawn(table._repr_html_())


def test_a_table_without_files_has_no_drawing(catalog):
    made = catalog.create_table("db.empty", [("id", "INT")], ["id"])
    assert "<svg" not in made._repr_html_()


def test_a_table_whose_files_cannot_be_read_is_shown_without_them(table, monkeypatch):
    def damaged(self, *_):
        raise pkray.CorruptFileError("a manifest is damaged")

    monkeypatch.setattr(pkray.Table, "files", damaged)
    page = table._repr_html_()
    assert "primary key" in page
    assert "<svg" not in page


def test_relations_and_plans_are_shown_as_graphs_of_all_their_operators(catalog, table):
    relation = catalog.sql("SELECT COUNT(*) AS n FROM db.`<i>t` WHERE id > 1")
    plan = relation.compile_plan()
    kinds = ("Scan", "Exchange", "Aggregate")
    for each in (relation, relation.explain()):
        assert all(kind in drawn(each._repr_html_()) for kind in kinds)
    for each in plan.to_dict()["nodes"]:
        assert f"{each['id']} {each['type'].rpartition('_')[0]}" in drawn(plan._repr_html_())


def test_a_query_is_shown_as_its_text_and_as_a_graph_of_what_its_operators_did(catalog, table):
    text = "SELECT COUNT(*) AS n FROM db.`<i>t`"
    query = catalog.sql(text).materialize("db.counts")
    try:
        query.wait({"db.<i>t": table.latest_snapshot().id}, 120)
        page = query._repr_html_()
        assert "1 → 1 rows" in drawn(page)
        assert "db.<i>t" in drawn(page)
        assert f"<pre>{html.escape(text)}</pre>" in page
    finally:
        query.drop()
