"""What readers see in place of nulls, and that filters see it too."""

import pytest

import pkray
from pkray.errors import SchemaError

STORED = [{"k": 1, "v": None}, {"k": 2, "v": 3}]
SEEN = [{"k": 1, "v": 7}, {"k": 2, "v": 3}]
TABLES: list[dict[str, str]] = [
    {},
    {"deletion-vectors.enabled": "true"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"},
]


def written(catalog: pkray.Catalog, **options: str) -> pkray.Table:
    columns = [("k", "INT"), ("v", "INT")]
    defaults = {"fields.v.default-value": "7"}
    table = catalog.create_table("db.t", columns, ["k"], options={**defaults, **options})
    with table.open_writer() as writer:
        writer.write(STORED)
        writer.commit(1)
    return table


@pytest.mark.parametrize("options", TABLES, ids=str)
@pytest.mark.parametrize(
    ("filter", "keys"),
    [("v = 7", [1]), ("v IS NULL", []), ("v IS NOT NULL", [1, 2]), ("v = 3 OR k = 1", [1, 2])],
)
def test_filters_see_defaults(
    catalog: pkray.Catalog, options: dict[str, str], filter: str, keys: list[int]
) -> None:
    table = written(catalog, **options)
    assert table.to_arrow(columns=["k"], filter=filter).column("k").to_pylist() == keys


def test_lookups_see_defaults(catalog: pkray.Catalog) -> None:
    table = written(catalog)
    keys = [{"k": 1}, {"k": 2}]
    for visibility in ("latest", "committed"):
        assert table.lookup(keys, visibility=visibility).to_pylist() == SEEN
    assert table.lookup(keys, visibility="committed", snapshot_id=1).to_pylist() == SEEN
    assert table.lookup_prefix(keys).to_pylist() == SEEN
    with table.open_writer() as writer:
        writer.write([{"k": 3, "v": None}])
        assert table.lookup([{"k": 3}], columns=["v"]).to_pylist() == [{"v": 7}]


def test_changes_show_defaults(catalog: pkray.Catalog) -> None:
    table = written(catalog)
    changes = table.changes(0, 1, filter="v = 7")
    assert changes.to_pylist() == [{"_row_kind": "+I", "k": 1, "v": 7}]
    assert table.changelog().column("v").to_pylist() == [7, 3]


def test_files_keep_the_nulls(catalog: pkray.Catalog) -> None:
    table = written(catalog)
    table.alter.set_options({"fields.v.default-value": "8"})
    assert table.to_arrow().to_pylist() == [{"k": 1, "v": 8}, SEEN[1]]


def test_a_default_that_is_set_later_is_checked(catalog: pkray.Catalog) -> None:
    with pytest.raises(SchemaError, match=r"fields\.v\.default-value"):
        written(catalog).alter.set_options({"fields.v.default-value": "x"})
