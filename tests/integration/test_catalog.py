"""A catalog: names, databases, tables renamed and dropped, system tables by name."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pkray
from pkray import errors

COLUMNS = [("id", "BIGINT"), ("v", "INT")]


@pytest.fixture(params=["disk", "memory"])
def catalog(request, tmp_path: Path) -> Iterator[pkray.Catalog]:
    is_disk = request.param == "disk"
    with pkray.connect(tmp_path if is_disk else f"memory://{tmp_path.name}") as opened:
        yield opened


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path) as opened:
        yield opened


def made(catalog: pkray.Catalog, name: str = "shop.orders", *ids: int) -> pkray.Table:
    table = catalog.create_table(name, COLUMNS, ["id"])
    if ids:
        table.upsert(
            [{"id": number, "v": number * 10} for number in ids],
            commit_user="job",
            commit_identifier=1,
        )
    return table


def test_a_database_without_tables_is_listed_until_it_is_dropped(catalog):
    catalog.create_database("empty")
    assert (catalog.list_databases(), catalog.list_tables("empty")) == (["empty"], [])
    with pytest.raises(errors.DatabaseExistsError, match="only if it does not exist"):
        catalog.create_database("empty")
    catalog.create_database("empty", if_not_exists=True)
    catalog.drop_database("empty")
    assert catalog.list_databases() == []


def test_a_database_that_is_not_there_is_named(catalog):
    made(catalog)
    with pytest.raises(errors.DatabaseNotFoundError, match="its databases are shop"):
        catalog.list_tables("stop")
    with pytest.raises(errors.DatabaseNotFoundError, match="stop"):
        catalog.drop_database("stop")
    catalog.drop_database("stop", if_exists=True)


def test_tables_keep_their_database_from_being_dropped(catalog):
    made(catalog, "shop.orders", 1)
    made(catalog, "shop.people")
    with pytest.raises(errors.TableError, match=r"drop shop\.orders, shop\.people first"):
        catalog.drop_database("shop")
    catalog.drop_database("shop", cascade=True)
    assert (catalog.list_databases(), catalog.list_tables()) == ([], [])


def test_a_dropped_table_leaves_no_folder(on_disk, tmp_path):
    made(on_disk, "shop.orders", 1)
    on_disk.drop_table("shop.orders")
    assert [path.name for path in (tmp_path / "shop.db").iterdir()] == []
    assert on_disk.list_databases() == ["shop"]


def test_a_renamed_table_has_its_rows_tags_and_branches(on_disk):
    table = made(on_disk, "shop.orders", 1)
    table.tags.create("v1")
    table.branches.create("b", tag="v1")
    on_disk.rename_table("shop.orders", "archive.old")
    assert on_disk.list_tables() == ["archive.old"]
    renamed = on_disk.load_table("archive.old")
    renamed.upsert([{"id": 2, "v": 20}], commit_user="job", commit_identifier=2)
    assert renamed.to_arrow()["id"].to_pylist() == [1, 2]
    assert renamed.to_arrow(tag="v1")["id"].to_pylist() == [1]
    assert renamed.branch("b").lookup([{"id": 1}])["v"].to_pylist() == [10]


def test_a_new_name_that_is_taken_is_refused(on_disk):
    made(on_disk, "shop.orders", 1)
    made(on_disk, "shop.people", 2)
    with pytest.raises(errors.TableExistsError, match=r"shop\.people"):
        on_disk.rename_table("shop.orders", "shop.people")
    with pytest.raises(errors.TableNotFoundError, match=r"shop\.nothing"):
        on_disk.rename_table("shop.nothing", "shop.other")
    assert on_disk.load_table("shop.people").to_arrow()["id"].to_pylist() == [2]


def test_an_object_store_renames_no_table(tmp_path):
    with pkray.connect(f"memory://{tmp_path.name}") as catalog:
        made(catalog, "shop.orders", 1)
        with pytest.raises(errors.UnsupportedError, match="copy the rows"):
            catalog.rename_table("shop.orders", "shop.other")
        assert catalog.list_tables() == ["shop.orders"]


@pytest.mark.parametrize(
    "name", ["orders", "s...x", "..s.x", "s.a b", "s.a\nb", "s.a/b", "s.a$", "s.a$x$y", "s.", 5]
)
def test_what_no_table_can_be_called(catalog, name):
    with pytest.raises(errors.TableNotFoundError, match="a table's name"):
        catalog.create_table(name, COLUMNS, ["id"])
    assert catalog.list_databases() == []


@pytest.mark.parametrize("name", ["shop.orders$files", "shop.orders$branch_b"])
def test_system_tables_and_branches_are_no_tables_to_be_made(catalog, name):
    made(catalog)
    for change in (
        lambda: catalog.create_table(name, COLUMNS, ["id"]),
        lambda: catalog.drop_table(name),
        lambda: catalog.rename_table(name, "shop.other"),
    ):
        with pytest.raises(errors.TableError, match=r"shop\.orders"):
            change()
    assert catalog.list_tables() == ["shop.orders"]


def test_a_system_table_by_name(catalog):
    table = made(catalog, "shop.orders", 1, 2)
    files = catalog.load_table("shop.orders$files")
    assert (files.name, files.arrow_schema) == ("shop.orders$files", table.files().schema)
    assert files.to_arrow() == table.files()
    found = files.to_arrow(["record_count"], "level = 0 AND bucket IN (0, 7)")
    assert found.to_pylist() == [{"record_count": 2}]
    assert files.to_arrow(filter="level > 0").num_rows == 0
    assert files.to_pandas(["level"])["level"].tolist() == [0]


def test_a_system_table_of_rows_is_read_as_it_is_taken(catalog):
    table = made(catalog, "shop.orders", 1, 2)
    table.delete([{"id": 1}], commit_user="job", commit_identifier=2)
    log = catalog.load_table("shop.orders$audit_log")
    assert log.arrow_schema.names == ["rowkind", "id", "v"]
    assert log.to_arrow(["rowkind"], "id = 1").to_pydict() == {"rowkind": ["+I", "-D"]}
    assert log.to_arrow(snapshot_id=1)["rowkind"].to_pylist() == ["+I", "+I"]
    assert [len(batch) for batch in log.to_batches(filter="id = 2")] == [1, 0]
    assert catalog.load_table("shop.orders$ro").to_arrow().num_rows == 0
    table.compact(full=True)
    assert catalog.load_table("shop.orders$RO").to_arrow()["id"].to_pylist() == [2]


def test_the_binlog_has_an_update_in_one_row(catalog):
    options = {"changelog-producer": "lookup"}
    table = catalog.create_table("shop.orders", COLUMNS, ["id"], options=options)
    for rows in ([(1, 10), (2, 20)], [(2, 21), (3, 30), (1, 11)], [(3, None)]):
        with table.open_writer("job") as writer:
            writer.upsert([{"id": number, "v": value} for number, value in rows])
            if rows[0][0] == 3:
                writer.delete([{"id": 1}])
            writer.commit()
    log = catalog.load_table("shop.orders$binlog").to_arrow()
    assert [tuple(row.values()) for row in log.to_pylist()] == [
        ("+I", [1], [10]),
        ("+I", [2], [20]),
        ("+U", [1, 1], [10, 11]),
        ("+U", [2, 2], [20, 21]),
        ("+I", [3], [30]),
        ("-D", [1], [11]),
        ("+U", [3, 3], [30, None]),
    ]


def test_what_was_dropped_is_not_there(catalog):
    table = made(catalog, "shop.orders", 1)
    writer = table.open_writer("late")
    writer.upsert([{"id": 2, "v": 2}])
    catalog.drop_table("shop.orders")
    with pytest.raises(errors.TableNotFoundError, match=r"shop\.orders does not exist any more"):
        writer.commit(1)
    writer.close()
    for read in (table.to_arrow, table.open_writer, lambda: table.lookup([{"id": 1}])):
        with pytest.raises(errors.TableNotFoundError, match=r"shop\.orders does not exist"):
            read()
    assert not catalog.table_exists("shop.orders")


def test_system_tables_of_a_branch(catalog):
    table = made(catalog, "shop.orders", 1)
    table.tags.create("v1")
    table.branches.create("b", tag="v1")
    table.branch("b").upsert([{"id": 5, "v": 1}], commit_user="other", commit_identifier=7)
    users = catalog.load_table("shop.orders$branch_b$snapshots").to_arrow(["commit_user"])
    assert users.to_pydict() == {"commit_user": ["job", "other"]}
    assert catalog.load_table("shop.orders$snapshots").to_arrow().num_rows == 1
    with pytest.raises(errors.BranchNotFoundError, match="its branches are b"):
        catalog.load_table("shop.orders$branch_c$snapshots")


def test_a_system_table_is_read_alone(catalog):
    made(catalog, "shop.orders", 1)
    files = catalog.load_table("shop.orders$files")
    with pytest.raises(errors.UnsupportedError, match=r"open_writer goes with shop\.orders"):
        files.open_writer()
    with pytest.raises(AttributeError, match="no attribute 'opne_writer'"):
        _ = files.opne_writer
    with pytest.raises(errors.InputError, match="did you mean 'level'"):
        files.to_arrow(filter="lvl = 0")
    with pytest.raises(errors.SchemaError, match="did you mean 'level'"):
        files.to_arrow(columns=["lvl"])


def test_which_names_are_there(catalog):
    made(catalog)
    names = ("shop.orders", "shop.orders$files", "shop.orders$file", "shop.orders$branch_b", "a.b")
    assert [catalog.table_exists(name) for name in names] == [True, True, False, False, False]
    with pytest.raises(errors.TableNotFoundError, match="did you mean 'files'"):
        catalog.load_table("shop.orders$file")


def test_columns_as_a_mapping_and_as_arrow_types(catalog):
    types = {"id": pa.int64(), "price": "DECIMAL(10, 2)", "name": pa.large_string()}
    table = catalog.create_table("shop.items", types, ["id"], comment="what is sold")
    shown = [str(field.type) for field in table.schema.fields]
    assert shown == ["BIGINT NOT NULL", "DECIMAL(10, 2)", "STRING"]
    assert (table.primary_keys, table.partition_keys) == (("id",), ())
    assert table.comment == "what is sold"


def test_an_unknown_option_of_the_runtime_is_named(tmp_path):
    with pytest.raises(pkray.OptionError, match=r"'owner' is unknown to runtime 'local'"):
        pkray.connect(tmp_path, runtime_options={"owner": 2})


def test_an_option_of_the_runtime_that_is_given_elsewhere_is_not_lost(tmp_path):
    with pytest.raises(pkray.OptionError, match="'owners' is no option of the store"):
        pkray.connect(tmp_path, owners=2)
    with pkray.connect(tmp_path) as catalog:
        with pytest.raises(pkray.OptionError, match=r"\['owners'\] go with the name of a runtime"):
            pkray.connect(tmp_path, catalog.runtime, runtime_options={"owners": 2})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("owners", value) for value in (0, -1, "2", 1.5)),
        ("local_directory", 5),
        *(("writer_lease", value) for value in (1, "30", None, True, float("nan"))),
    ],
)
def test_what_an_option_of_the_runtime_does_not_take_is_named(tmp_path, option, value):
    with pytest.raises(pkray.OptionError, match=f"{option} cannot be {value!r}"):
        pkray.connect(tmp_path, runtime_options={option: value})


def test_a_local_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(pkray.StorageError, match=r"local_directory '.*file/below'"):
        pkray.connect(tmp_path, runtime_options={"local_directory": tmp_path / "file/below"})


@pytest.mark.parametrize(
    ("warehouse", "message"),
    [("", "is empty"), (None, "cannot be None"), ("a-file", "'a-file' is a file: name a folder")],
)
def test_warehouses_that_are_none(tmp_path, monkeypatch, warehouse, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").touch()
    with pytest.raises(pkray.OptionError, match=message):
        pkray.connect(warehouse)


def test_a_file_where_a_folder_of_the_table_is_to_be_is_named(tmp_path):
    catalog = pkray.connect(tmp_path)
    (tmp_path / "shop.db").touch()
    with pytest.raises(pkray.StorageError, match=r"cannot write '.*shop\.db.*Not a directory"):
        catalog.create_table("shop.items", COLUMNS, ["id"])


def test_a_warehouse_that_is_refused_leaves_nothing(tmp_path):
    with pytest.raises(pkray.UnsupportedError, match="'ftp'"):
        pkray.connect("ftp://a/b", runtime_options={"local_directory": tmp_path})
    assert [path.name for path in (tmp_path / "embedded").iterdir()] == ["lock"]
