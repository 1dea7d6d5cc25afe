"""Tables as Ray Data's read tasks, called without Ray."""

import pickle

import pyarrow as pa
import pytest
from ray.data.expressions import col, lit

import pkray
from pkray.errors import InputError, SnapshotNotFoundError, TableReplacedError
from pkray.ray_data import table_source as source
from pkray.ray_data.table_source import TableDatasource
from tests.recorded_spans import recorded, trees

COLUMNS = [("k", "INT"), ("p", "STRING"), ("v", "BIGINT"), ("x", "DOUBLE")]
ROWS = [{"k": k, "p": "ab"[k % 2], "v": k * 10, "x": k / 4} for k in range(100)]


@pytest.fixture
def table(tmp_path):
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", COLUMNS, ["k"], options={"bucket": "4"})
        with table.open_writer() as writer:
            writer.upsert(ROWS)
            writer.commit()
            writer.upsert([{**ROWS[5], "v": -5}])
            writer.delete([{"k": 6}])
            writer.commit()
        yield table


@pytest.fixture
def datasource(table, monkeypatch):
    """Make the source of a read, as Ray Data gets it."""
    made = []
    monkeypatch.setattr(source.ray.data, "read_datasource", lambda each, **_: made.append(each))

    def of(**arguments) -> TableDatasource:
        source.read(table, **arguments)
        return made[-1]

    return of


def rows_of(datasource: TableDatasource, parallelism: int = 3) -> pa.Table:
    """Read as tasks do: from what was pickled."""
    tasks = pickle.loads(pickle.dumps(datasource.get_read_tasks(parallelism)))
    blocks = [block for task in tasks for block in task()]
    return pa.concat_tables(blocks) if blocks else tasks[0].schema.empty_table()


def sorted_rows(rows: pa.Table) -> list[dict]:
    return sorted(rows.to_pylist(), key=repr)


def test_tasks_read_what_the_table_has(table, datasource):
    assert sorted_rows(rows_of(datasource())) == sorted_rows(table.to_arrow())


def test_a_life(tmp_path, table, datasource):
    """A Dataset goes on beside another and while rows are written, not once they are dropped."""
    first = datasource()
    table.upsert([{**ROWS[1], "v": 0}])
    second = datasource()
    assert len(rows_of(first)) == len(rows_of(second)) == 99
    with pkray.connect(tmp_path) as catalog:
        catalog.drop_table("db.t")
        catalog.create_table("db.t", COLUMNS, ["k"]).upsert(ROWS)
    with pytest.raises(TableReplacedError, match="load it again"):
        rows_of(first)


def test_a_dataset_stays_on_its_snapshot(table, datasource):
    assert sorted_rows(rows_of(datasource(snapshot_id=1))) == sorted_rows(
        table.to_arrow(snapshot_id=1)
    )
    with pytest.raises(SnapshotNotFoundError):
        datasource(snapshot_id=99)


def test_columns_and_a_filter_of_the_table_are_read_alone(table, datasource):
    found = datasource(columns=["v", "k"], filter="k < 10")
    expected = table.to_arrow(["v", "k"], "k < 10")
    assert sorted_rows(rows_of(found)) == sorted_rows(expected)
    assert rows_of(found).schema.names == ["v", "k"]


def test_a_projection_is_pushed_down(table, datasource):
    pushed = datasource().apply_projection({"v": "v"})
    assert all(split.columns == ("v",) for split in pushed._splits())
    assert sorted_rows(rows_of(pushed)) == sorted_rows(table.to_arrow(["v"]))


def test_no_columns_leave_as_many_rows(table, datasource):
    assert rows_of(datasource().apply_projection({})).num_rows == len(table.to_arrow())


PREDICATES = {
    "a comparison": (col("k") >= lit(90), "k >= 90"),
    "a comparison the other way round": (lit(90) < col("k"), "k > 90"),
    "a conjunction": ((col("k") > 10) & (col("v") < 200), "k > 10 AND v < 200"),
    "a list": (col("k").is_in([1, 2, 300]), "k IN (1, 2, 300)"),
    "what prunes nothing": ((col("k") == 3) | (col("x") > 20.0), "k = 3 OR x > 20.0"),
    "a text": (col("p") == "a", "p = 'a'"),
    "arithmetic": ((col("k") + col("v")) > 500, "k + v > 500"),
}


@pytest.mark.parametrize("name", PREDICATES)
def test_a_predicate_is_pushed_down(table, datasource, name):
    expression, text = PREDICATES[name]
    pushed = datasource().apply_predicate(expression).apply_projection({"x": "x"})
    expected = table.to_arrow(filter=None).filter(expression.to_pyarrow()).select(["x"])
    assert sorted_rows(rows_of(pushed)) == sorted_rows(expected), text


def test_a_predicate_leaves_out_buckets_and_files(table, datasource):
    table.compact()
    whole, pushed = datasource(), datasource().apply_predicate(col("k") == 3)
    assert len(pushed._splits()) < len(whole._splits())
    assert rows_of(pushed).to_pylist() == table.to_arrow(filter="k = 3").to_pylist()


def test_files_without_merging_are_tasks_of_their_own(table, datasource):
    table.compact()
    before = len(datasource().get_read_tasks(100))
    table.upsert(ROWS[:1])
    assert len(datasource().get_read_tasks(100)) == before == 4
    assert len(datasource().get_read_tasks(2)) == 2


def test_a_dataset_of_nothing_has_the_columns(datasource):
    found = rows_of(datasource(filter="k > 1000"))
    assert (found.num_rows, found.schema.names) == (0, ["k", "p", "v", "x"])


def test_what_does_not_fit_is_refused_before_anything_is_read(datasource, table):
    with pytest.raises(InputError, match="'q'"):
        datasource(columns=["q"])
    with pytest.raises(InputError, match="takes a table, and got a str"):
        source.read("db.t")
    with pytest.raises(InputError, match="has no column v"):
        datasource(columns=["k"]).apply_predicate(col("v") > 1).get_read_tasks(1)


def test_tasks_are_below_the_scan_that_made_them(table, datasource):
    found = datasource()
    with recorded() as exporter:
        rows_of(found)
    (tree,) = trees(exporter, "pkray.scan")
    below = {("plan", "scan"), ("task", "scan"), ("split", "task")}
    assert tree == {(f"pkray.{above}", f"pkray.{name}") for name, above in below}
