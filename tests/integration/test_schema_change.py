"""Tables whose columns another engine has changed."""

import pytest

import pkray


def test_files_of_other_columns_are_refused_by_name(tmp_path):
    from pypaimon_rust.datafusion import SQLContext

    warehouse = str(tmp_path)
    with pkray.connect(warehouse) as catalog:
        table = catalog.create_table("db.t", [("id", "INT"), ("v", "STRING")], ["id"])
        with table.open_writer() as writer:
            writer.upsert([{"id": 1, "v": "a"}])
            writer.commit()
    context = SQLContext()
    context.register_catalog("paimon", {"warehouse": warehouse})
    context.sql("ALTER TABLE paimon.db.t ADD COLUMN w INT")
    with pkray.connect(warehouse) as catalog:
        with pytest.raises(pkray.UnsupportedError, match="schema 0"):
            catalog.load_table("db.t").to_arrow()
