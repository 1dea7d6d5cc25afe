"""Lookups by the first columns of the key, against a dict."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import pkray
from pkray.errors import InputError, OptionError
from tests.effort import examples

COLUMNS = [("p", "STRING"), ("a", "INT"), ("b", "STRING"), ("c", "INT"), ("v", "INT")]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    warehouse = str(tmp_path_factory.mktemp("w"))
    with pkray.connect(warehouse, runtime_options={"owners": 2}) as catalog:
        yield catalog


_made = iter(range(10**6))


def make(catalog, partition=("p",), **options):
    name = f"db.t{next(_made)}"
    keys = [*partition, "a", "b", "c"]
    given = {key.replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table(name, COLUMNS, keys, partition, {"bucket": "3", **given})


def row(p, a, b, c, v):
    return {"p": p, "a": a, "b": b, "c": c, "v": v}


def write(table, rows, deletes=(), commit=True):
    writer = table.open_writer()
    if rows:
        writer.upsert(rows)
    if deletes:
        writer.delete(deletes)
    if commit:
        writer.commit()
        writer.close()
    return writer


def expected(model, asked):
    found = []
    for prefix in asked:
        hits = [r for r in model if all(r[name] == value for name, value in prefix.items())]
        found += sorted(hits, key=lambda r: (r["a"], r["b"], r["c"], r["p"]))
    return found


ROW = st.builds(
    row,
    st.sampled_from("xy"),
    st.integers(0, 2),
    st.sampled_from(["", "s", "sa"]),
    st.integers(0, 3),
    st.integers(0, 99),
)
BATCH = st.tuples(st.lists(ROW, max_size=12), st.lists(ROW, max_size=3), st.booleans())
PREFIX = st.tuples(st.integers(0, 3), st.sampled_from(["", "s", "sa"]), st.integers(0, 3))


@settings(max_examples=examples(6))
@given(
    batches=st.lists(BATCH, min_size=1, max_size=4),
    asked=st.lists(PREFIX, min_size=1, max_size=4),
    width=st.integers(1, 3),
    partition=st.sampled_from([None, "x", "y"]),
    options=st.sampled_from(
        [
            {},
            {"bucket_key": "a"},
            {"bucket": "-1", "dynamic_bucket.target_row_num": "5"},
            {"deletion_vectors.enabled": "true"},
            {"merge_engine": "partial-update", "partial_update.remove_record_on_delete": "true"},
            {"changelog_producer": "lookup"},
        ]
    ),
)
def test_prefixes_give_what_the_table_holds(catalog, batches, asked, width, partition, options):
    table = make(catalog, **options)
    model: dict[tuple, dict] = {}
    prefixes = [dict(zip("abc"[:width], each, strict=False)) for each in asked]
    if partition is not None:
        prefixes = [{"p": partition, **prefix} for prefix in prefixes]
    for rows, deletes, full in batches:
        committed = list(model.values())
        writer = write(table, rows, deletes, commit=False)
        model.update({(r["p"], r["a"], r["b"], r["c"]): r for r in rows})
        for r in deletes:
            model.pop((r["p"], r["a"], r["b"], r["c"]), None)
        held = list(model.values())
        assert table.lookup_prefix(prefixes).to_pylist() == expected(held, prefixes)
        past = table.lookup_prefix(prefixes, visibility="committed").to_pylist()
        assert past == expected(committed, prefixes)
        writer.commit()
        writer.close()
        if full:
            table.compact(full=True)
        now = table.lookup_prefix(prefixes, visibility="committed", columns=["v", "a"])
        assert now.to_pylist() == [{"v": r["v"], "a": r["a"]} for r in expected(held, prefixes)]


def test_an_older_snapshot_and_a_tag_whose_snapshot_expired(catalog):
    table = make(catalog)
    write(table, [row("x", 1, "s", 1, 1), row("y", 1, "s", 2, 2)])
    table.tags.create("before")
    write(table, [row("x", 1, "s", 1, 10)], [row("y", 1, "s", 2, 0)])
    how = {"visibility": "committed", "columns": ["v"]}
    assert table.lookup_prefix([{"a": 1}], **how)["v"].to_pylist() == [10]
    assert table.lookup_prefix([{"a": 1}], snapshot_id=1, **how)["v"].to_pylist() == [1, 2]
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**52)
    found = table.lookup_prefix([{"a": 2}, {"a": 1}, {"a": 1}], tag="before", **how)
    assert found["v"].to_pylist() == [1, 2, 1, 2]


def test_columns_that_were_renamed_and_added(catalog):
    table = make(catalog)
    write(table, [row("x", 1, "s", 1, 1), row("y", 1, "t", 2, 2)])
    table.alter.rename_column("v", "w")
    table.alter.add_column("n", "INT")
    write(table, [{"p": "x", "a": 1, "b": "u", "c": 1, "w": 3, "n": 4}])
    found = table.lookup_prefix([{"a": 1}], columns=["w", "n"]).to_pylist()
    assert found == [{"w": 1, "n": None}, {"w": 2, "n": None}, {"w": 3, "n": 4}]


@pytest.mark.parametrize("key", ["a", None])
def test_partitions_with_other_buckets_than_the_tables(catalog, key):
    table = make(catalog, **({"bucket_key": key} if key else {}))
    model = [row(p, a, "s", c, a) for p in "xy" for a in range(9) for c in range(3)]
    write(table, model)
    table.rescale(5, [{"p": "x"}])
    for prefixes in ([{"a": a} for a in range(9)], [{"p": p, "a": 4} for p in "yx"]):
        found = table.lookup_prefix(prefixes, visibility="committed")
        assert found.to_pylist() == expected(model, prefixes)


def test_text_matches_as_a_whole(catalog):
    table = make(catalog, partition=())
    write(table, [row("", 1, "s", 1, 1), row("", 1, "sa", 1, 2)])
    found = table.lookup_prefix([{"a": 1, "b": "s"}], columns=["v"])
    assert found["v"].to_pylist() == [1]


@pytest.mark.parametrize(
    "keys", [[{"b": "s"}], [{"p": "x"}], [{"a": 1, "c": 1}], [{"a": 1, "v": 1}], [{"nope": 1}]]
)
def test_what_is_no_prefix_is_refused(catalog, keys):
    table = make(catalog)
    with pytest.raises(InputError, match="first columns of"):
        table.lookup_prefix(keys)


def test_latest_has_no_older_moment(catalog):
    with pytest.raises(OptionError, match="visibility='committed'"):
        make(catalog).lookup_prefix([{"a": 1}], snapshot_id=1)


def test_nothing_asked_and_nothing_there(catalog):
    table = make(catalog)
    assert table.lookup_prefix([{"a": 1}]).num_rows == 0
    assert table.lookup_prefix([{"a": 1}]).schema == table.arrow_schema
    write(table, [row("x", 1, "s", 1, 1)])
    nothing = table.lookup_prefix([{"a": 1}]).select(["a"]).slice(0, 0)
    assert table.lookup_prefix(nothing).num_rows == 0
