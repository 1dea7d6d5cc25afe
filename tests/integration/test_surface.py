"""What a user of the Python API sees."""

import datetime as dt

import pandas as pd
import pyarrow as pa
import pytest

import pkray
from pkray.errors import InputError
from tests.integration.readers import rows_of

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])


@pytest.fixture
def table(catalog):
    return catalog.create_table("shop.orders", SCHEMA, ["id"], options={"bucket": "3"})


def put(table, rows, identifier=None):
    return table.upsert(rows, commit_user="test", commit_identifier=identifier)


def test_upsert_takes_every_kind_of_data(table):
    rows = {"id": [1], "name": ["a"], "amount": [1.5]}
    with table.open_writer() as writer:
        writer.upsert(pa.table(rows, schema=SCHEMA))
        writer.upsert(pa.record_batch({**rows, "id": [2]}, schema=SCHEMA))
        writer.upsert(pd.DataFrame({**rows, "id": [3]}))
        writer.upsert([{"id": 4, "name": "a", "amount": 1.5}])
        writer.commit()
    assert rows_of(table.to_arrow(), ["id"]) == [(i, "a", 1.5) for i in (1, 2, 3, 4)]


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame])
def test_row_kinds_delete_and_update(table, make):
    put(table, [{"id": 1, "name": "a", "amount": 1.0}, {"id": 2, "name": "b", "amount": 2.0}])
    changes = make(
        {
            "op": ["-D", "-U", "+U", "+I"],
            "id": [1, 2, 2, 3],
            "name": ["a", "b", "bb", "c"],
            "amount": [1.0, 2.0, 22.0, 3.0],
        }
    )
    with table.open_writer() as writer:
        writer.write(changes, row_kinds="op")
        writer.commit()
    assert rows_of(table.to_arrow(), ["id"]) == [(2, "bb", 22.0), (3, "c", 3.0)]


def test_a_frame_of_changes_is_refused_by_column(table):
    frame = pd.DataFrame({"op": ["+I"], "id": [1], "name": ["a"], "amount": [1j]})
    with table.open_writer() as writer:
        with pytest.raises(InputError, match="'amount' is complex128 in pandas"):
            writer.write(frame, row_kinds="op")
        with pytest.raises(InputError, match="row_kinds names column 'kind'"):
            writer.write(frame, row_kinds="kind")
        with pytest.raises(InputError, match="'id'"):
            writer.write(frame, row_kinds="id")


def test_nothing_is_committed_when_the_block_is_left_by_an_exception(table):
    with pytest.raises(RuntimeError), table.open_writer() as writer:
        writer.upsert([{"id": 1, "name": "a", "amount": 1.0}])
        raise RuntimeError
    assert table.latest_snapshot() is None
    assert table.lookup([{"id": 1}]).num_rows == 0


def test_lookup_keeps_the_order_asked_and_leaves_absent_keys_out(table):
    put(table, [{"id": i, "name": str(i), "amount": float(i)} for i in range(100)])
    found = table.lookup(pa.table({"id": [50, 1000, 3, 99, 3]}), columns=["name"])
    assert found["name"].to_pylist() == ["50", "3", "99", "3"]


def test_compaction_keeps_the_content_in_one_run_a_bucket(table):
    for i in range(3):
        put(table, [{"id": j, "name": str(i), "amount": 1.0} for j in range(20)])
    before = rows_of(table.to_arrow(), ["id"])
    snapshot = table.compact(full=True)
    assert snapshot.commit_kind == "COMPACT"
    assert rows_of(table.to_arrow(), ["id"]) == before
    assert set(table.files()["level"].to_pylist()) == {5}
    assert table.compact(full=True) is None


def test_the_changelog_of_each_commit(catalog):
    table = catalog.create_table(
        "shop.log", SCHEMA, ["id"], options={"changelog-producer": "lookup"}
    )
    put(table, [{"id": 1, "name": "a", "amount": 1.0}])
    put(table, [{"id": 1, "name": "b", "amount": 1.0}])
    log = table.changelog()
    assert log.column_names == ["_row_kind", "_snapshot_id", "id", "name", "amount"]
    assert list(zip(log["_row_kind"].to_pylist(), log["name"].to_pylist(), strict=True)) == [
        ("+I", "a"),
        ("-U", "a"),
        ("+U", "b"),
    ]


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([{"id": 1, "name": "a"}], "amount"),
        ([{"id": 1, "name": "a", "amount": 1.0, "extra": 1}], "extra"),
        ([{"id": None, "name": "a", "amount": 1.0}], "id"),
        (pa.table({"id": ["x"], "name": ["a"], "amount": [1.0]}), "id"),
        (pa.table({"id": [1], "name": ["a"], "amount": [dt.date(2024, 1, 1)]}), "amount"),
    ],
    ids=["missing", "extra", "null key", "wrong type of key", "wrong type of value"],
)
def test_rows_that_do_not_fit_are_refused_whole(table, rows, named):
    put(table, [{"id": 9, "name": "kept", "amount": 9.0}])
    with table.open_writer() as writer:
        with pytest.raises(pkray.InputError, match=named):
            writer.upsert(rows)
        writer.commit()
    assert rows_of(table.to_arrow(), ["id"]) == [(9, "kept", 9.0)]


def test_creating_a_table_that_exists(catalog, table):
    with pytest.raises(pkray.TableExistsError, match=r"shop\.orders"):
        catalog.create_table("shop.orders", SCHEMA, ["id"])
    same = catalog.create_table("shop.orders", SCHEMA, ["id"], if_not_exists=True)
    assert same.schema == table.schema


def test_names_start_as_the_options_say(tmp_path):
    options = {
        "data-file.prefix": "rows-",
        "changelog-file.prefix": "changes-",
        "commit.user-prefix": "etl",
        "changelog-producer": "input",
    }
    with pkray.connect(str(tmp_path)) as catalog:
        schema = [("id", "BIGINT NOT NULL"), ("v", "STRING")]
        table = catalog.create_table("db.t", schema, ["id"], options=options)
        snapshot = table.upsert([{"id": 1, "v": "a"}])
        assert snapshot.commit_user.startswith("etl-")
        names = sorted(path.name.split("-")[0] for path in tmp_path.rglob("*.parquet"))
        assert names == ["changes", "rows"]
        assert table.changelog()["id"].to_pylist() == table.to_arrow()["id"].to_pylist() == [1]
        assert table.remove_orphan_files(older_than=0, dry_run=True).num_rows == 0
