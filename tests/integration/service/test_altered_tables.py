"""A table whose schema changes while it is written and looked up."""

import pytest

import pkray
from pkray.errors import SchemaChangedError
from pkray.schema.changes import AddColumn, ChangeType, DropColumn, RenameColumn

COLUMNS = [("id", "INT"), ("a", "INT"), ("b", "STRING")]


@pytest.fixture
def catalog(tmp_path):
    with pkray.connect(str(tmp_path / "w"), runtime_options={"owners": 2}) as catalog:
        yield catalog


def make(catalog, **options):
    return catalog.create_table("db.t", COLUMNS, ["id"], options={"bucket": "2", **options})


def write(table, *rows, **how):
    with table.open_writer() as writer:
        writer.upsert(list(rows))
        return writer.commit(**how)


def rows(table, **how) -> list[dict]:
    return table.to_arrow(**how).sort_by("id").to_pylist()


def test_the_same_table_sees_the_new_schema(catalog):
    table = make(catalog)
    write(table, {"id": 1, "a": 2, "b": "x"})
    schema = table.alter.rename_column("a", "c")
    assert table.schema == schema
    assert rows(table) == [{"id": 1, "c": 2, "b": "x"}]
    assert table.lookup([{"id": 1}]).to_pylist() == [{"id": 1, "c": 2, "b": "x"}]
    write(table, {"id": 2, "c": 3, "b": "y"})
    assert table.to_arrow(filter="c = 3")["id"].to_pylist() == [2]


def test_several_changes_make_one_schema(catalog):
    table = make(catalog)
    write(table, {"id": 1, "a": 2, "b": "x"})
    table.alter.apply([DropColumn("b"), AddColumn("b", "BIGINT"), ChangeType("a", "BIGINT")])
    assert table.schema.id == 1
    assert rows(table) == [{"id": 1, "a": 2, "b": None}]


def test_an_older_snapshot_has_the_columns_that_it_had(catalog):
    table = make(catalog)
    old = write(table, {"id": 1, "a": 2, "b": "x"})
    table.alter.apply([RenameColumn("a", "c"), DropColumn("b")])
    assert rows(table) == [{"id": 1, "c": 2}]
    new = write(table, {"id": 1, "c": 9})
    was = [{"id": 1, "a": 2, "b": "x"}]
    assert rows(table, snapshot_id=old.id) == was
    assert rows(table, snapshot_id=old.id, filter="a = 2", columns=["id", "b"]) == [
        {"id": 1, "b": "x"}
    ]
    assert rows(table, snapshot_id=new.id) == [{"id": 1, "c": 9}]
    found = table.lookup([{"id": 1}], visibility="committed", snapshot_id=old.id)
    assert found.to_pylist() == was


def test_lookups_go_on_where_a_copy_has_a_column_that_was_dropped(tmp_path):
    with pkray.connect(str(tmp_path)) as catalog:
        write(make(catalog), {"id": 1, "a": 2, "b": "x"})
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        assert table.lookup([{"id": 1}], columns=["a"]).to_pylist() == [{"a": 2}]
        table.alter.drop_column("a")
        assert table.lookup([{"id": 1}]).to_pylist() == [{"id": 1, "b": "x"}]


def test_an_open_writer_goes_on_with_the_columns_it_knows(catalog):
    table = make(catalog)
    writer = catalog.load_table("db.t").open_writer()
    writer.upsert([{"id": 1, "a": 1, "b": "in memory"}])
    table.alter.apply(
        [RenameColumn("a", "c"), ChangeType("c", "BIGINT"), DropColumn("b"), AddColumn("b", "INT")]
    )
    assert table.lookup([{"id": 1}]).to_pylist() == [{"id": 1, "c": 1, "b": None}]
    writer.upsert([{"id": 2, "a": 2, "b": "after"}])
    snapshot = writer.commit()
    assert snapshot.schema_id == 1
    assert rows(table) == [{"id": 1, "c": 1, "b": None}, {"id": 2, "c": 2, "b": None}]
    writer.upsert([{"id": 3, "a": 3, "b": "next commit"}])
    writer.commit(full_compact=True)
    assert rows(table)[2] == {"id": 3, "c": 3, "b": None}
    assert set(table.files()["schema_id"].to_pylist()) == {1}


def test_an_old_writer_never_takes_columns_from_rows_of_a_new_one(catalog):
    table = make(catalog, **{"merge-engine": "partial-update"})
    old = table.open_writer()
    old.upsert([{"id": 1, "a": 1, "b": "x"}])
    table.alter.add_column("n", "INT")
    write(table, {"id": 1, "a": None, "b": None, "n": 7})
    old.commit(full_compact=True)
    assert rows(table) == [{"id": 1, "a": 1, "b": "x", "n": 7}]


def test_a_table_object_that_is_out_of_date_keeps_its_columns(catalog):
    table = make(catalog)
    write(table, {"id": 1, "a": 1, "b": "x"})
    old = catalog.load_table("db.t")
    table.alter.apply([RenameColumn("a", "c"), ChangeType("c", "BIGINT"), AddColumn("n", "INT")])
    write(table, {"id": 2, "c": 2, "b": "y", "n": 1})
    expected = [{"id": 1, "a": 1, "b": "x"}, {"id": 2, "a": 2, "b": "y"}]
    assert rows(old) == expected
    assert old.lookup([{"id": 1}, {"id": 2}]).to_pylist() == expected
    assert old.lookup([{"id": 2}], visibility="committed").to_pylist() == expected[1:]
    write(old, {"id": 3, "a": 3, "b": "z"})
    assert rows(table)[2] == {"id": 3, "c": 3, "b": "z", "n": None}
    write(table, {"id": 2, "c": 1 << 40, "b": "y", "n": 1})
    with pytest.raises(SchemaChangedError, match=r"'a' is BIGINT now.*load the table again"):
        rows(old)


def test_another_process_changes_the_table(catalog):
    table = make(catalog)
    with table.open_writer() as writer:
        writer.upsert([{"id": 1, "a": 1, "b": "x"}])
        with pkray.connect(catalog.warehouse) as elsewhere:
            theirs = elsewhere.load_table("db.t")
            theirs.alter.apply([RenameColumn("a", "c"), AddColumn("n", "INT", first=True)])
            write(theirs, {"n": 5, "id": 2, "c": 2, "b": "y"}, full_compact=True)
        assert table.lookup([{"id": 1}]).to_pylist() == [{"id": 1, "a": 1, "b": "x"}]
        committed = table.lookup([{"id": 1}, {"id": 2}], visibility="committed")
        assert committed.to_pylist() == [{"id": 2, "a": 2, "b": "y"}]
        writer.upsert([{"id": 3, "a": 3, "b": "z"}])
        assert writer.commit(full_compact=True).schema_id == 1
    assert rows(catalog.load_table("db.t")) == [
        {"n": None, "id": 1, "c": 1, "b": "x"},
        {"n": 5, "id": 2, "c": 2, "b": "y"},
        {"n": None, "id": 3, "c": 3, "b": "z"},
    ]


def test_filters_prune_files_of_older_columns_rightly(catalog):
    table = make(catalog)
    write(table, *({"id": i, "a": i, "b": "x"} for i in range(10)))
    table.alter.apply([RenameColumn("a", "t"), RenameColumn("b", "a"), AddColumn("b", "INT")])
    write(table, *({"id": i, "t": i, "a": "y", "b": i} for i in range(10, 20)))
    table.alter.change_type("t", "BIGINT")
    write(table, *({"id": i, "t": i << 32, "a": "z", "b": i} for i in range(20, 30)))

    def ids(filter: str) -> list[int]:
        return sorted(table.to_arrow(filter=filter)["id"].to_pylist())

    assert ids("t = 3") == [3]
    assert ids("t >= 18 AND t < 90000000000") == [18, 19, 20]
    assert ids("a = 'x'") == list(range(10))
    assert ids("a > 'x'") == list(range(10, 30))
    assert ids("b IS NULL") == list(range(10))
    assert ids("b = 25") == [25]
    assert ids("b < 12") == [10, 11]


def test_a_renamed_key_is_looked_up_by_both_names(catalog):
    table = make(catalog)
    write(table, {"id": 1, "a": 1, "b": "x"})
    old = catalog.load_table("db.t")
    with old.open_writer() as writer:
        writer.upsert([{"id": 2, "a": 2, "b": "y"}])
        table.alter.rename_column("id", "key")
        for visibility in ("latest", "committed"):
            found = table.lookup([{"key": 1}], visibility=visibility)
            assert found.to_pylist() == [{"key": 1, "a": 1, "b": "x"}]
        assert old.lookup([{"id": 2}]).to_pylist() == [{"id": 2, "a": 2, "b": "y"}]
        assert table.lookup([{"key": 2}]).to_pylist() == [{"key": 2, "a": 2, "b": "y"}]
        writer.commit()
    with table.open_writer() as writer:
        writer.delete([{"key": 1}])
        writer.commit(full_compact=True)
    assert table.to_arrow().to_pylist() == [{"key": 2, "a": 2, "b": "y"}]


def test_copies_for_lookups_outlive_a_change(catalog):
    table = make(catalog)
    write(table, *({"id": i, "a": i, "b": str(i)} for i in range(100)))
    assert table.lookup([{"id": 5}], visibility="committed").num_rows == 1

    def builds() -> int:
        return sum(owner["lookup"].builds for owner in table.service_stats()["owners"])

    before = builds()
    table.alter.apply([DropColumn("b"), AddColumn("b", "INT"), RenameColumn("a", "c")])
    found = table.lookup([{"id": 5}], visibility="committed")
    assert found.to_pylist() == [{"id": 5, "c": 5, "b": None}]
    assert builds() == before


def test_the_changelog_has_the_new_columns(catalog):
    table = make(catalog, **{"changelog-producer": "lookup"})
    write(table, {"id": 1, "a": 1, "b": "x"})
    table.alter.apply([ChangeType("a", "BIGINT"), RenameColumn("b", "c")])
    write(table, {"id": 1, "a": 1 << 40, "c": "y"})
    changes = table.changelog().drop_columns("_snapshot_id").to_pylist()
    assert changes == [
        {"_row_kind": "+I", "id": 1, "a": 1, "c": "x"},
        {"_row_kind": "-U", "id": 1, "a": 1, "c": "x"},
        {"_row_kind": "+U", "id": 1, "a": 1 << 40, "c": "y"},
    ]


def test_options_count_from_the_next_commit_on(catalog):
    table = make(catalog)
    writer = table.open_writer()
    writer.upsert([{"id": 1, "a": 1, "b": ""}])
    writer.commit()
    table.alter.set_options({"changelog-producer": "input"})
    writer.upsert([{"id": 1, "a": 2, "b": ""}])
    assert writer.commit().changelog_record_count == 1
    table.alter.unset_options(["changelog-producer"])
    writer.upsert([{"id": 1, "a": 3, "b": ""}])
    assert writer.commit().changelog_record_count in (None, 0)
    assert rows(table) == [{"id": 1, "a": 3, "b": ""}]


def test_aggregates_go_on_under_a_new_name_and_a_wider_type(catalog):
    table = make(catalog, **{"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"})
    write(table, {"id": 1, "a": (1 << 31) - 1, "b": "x"})
    table.alter.apply([RenameColumn("a", "total"), ChangeType("total", "BIGINT")])
    write(table, {"id": 1, "total": 1, "b": "y"})
    assert rows(table) == [{"id": 1, "total": 1 << 31, "b": "y"}]
    table.compact()
    assert rows(table) == [{"id": 1, "total": 1 << 31, "b": "y"}]
    assert table.lookup([{"id": 1}]).to_pylist() == [{"id": 1, "total": 1 << 31, "b": "y"}]


def test_a_new_writer_is_needed_where_rows_were_spread_otherwise(catalog):
    table = make(catalog)
    writer = table.open_writer()
    writer.upsert([{"id": 1, "a": 1, "b": "x"}])
    table.alter.set_options({"bucket": "3"})  # it has no rows yet
    with pytest.raises(SchemaChangedError, match=r"3 buckets now.*open a new writer"):
        writer.commit()
    write(table, {"id": 1, "a": 1, "b": "x"})
    assert rows(table) == [{"id": 1, "a": 1, "b": "x"}]
