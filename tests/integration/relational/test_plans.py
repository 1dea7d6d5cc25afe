"""Plans that are compiled, written and run."""

import pytest

from pkray.errors import QueryError
from pkray.relational import from_arrow


def test_a_table_s_own_relation_is_compiled_into_a_table_beside_it(catalog, tmp_path):
    for name in ("t", "sums"):
        catalog.sql(f"CREATE TABLE {name} (k INT, v BIGINT) TBLPROPERTIES ('primary-key' = 'k')")
    catalog.sql("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)").run()
    relation = catalog.load_table("default.t").relation()
    sums = relation.group_by((relation.k % 2).cast("INT").alias("k")).agg(v="sum(v)")
    sums.compile_plan(into="default.sums").write(tmp_path / "plan.json")
    catalog.load_plan(tmp_path / "plan.json").execute(continuous=False)
    made = catalog.load_table("default.sums").to_arrow().sort_by("k").to_pylist()
    assert made == [{"k": 0, "v": 20}, {"k": 1, "v": 40}]


def test_rows_of_memory_alone_know_no_table_to_go_into():
    with pytest.raises(QueryError, match=r"no catalog has db\.t"):
        from_arrow([{"a": 1}]).compile_plan(into="db.t")


def test_a_plan_reads_tables_with_rows_in_their_columns(catalog, tmp_path):
    catalog.sql(
        "CREATE TABLE t (k INT, r STRUCT<a: INT, b: ARRAY<STRUCT<c: INT>>>) "
        "TBLPROPERTIES ('primary-key' = 'k')"
    )
    catalog.sql(
        "INSERT INTO t VALUES (1, named_struct('a', 2, 'b', array(named_struct('c', 3))))"
    ).run()
    relation = catalog.sql("SELECT k, r, r.b[0].c AS c FROM t")
    relation.compile_plan().write(tmp_path / "plan.json")
    loaded = catalog.load_plan(tmp_path / "plan.json")
    assert loaded.execute(continuous=False).to_pylist() == relation.to_arrow().to_pylist()
