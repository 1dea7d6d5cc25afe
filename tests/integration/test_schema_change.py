"""Tables whose columns another engine has changed."""

import pkray
from tests.integration.readers import RustCatalog, rows_of


def test_files_of_older_columns_are_read_under_the_new_ones(tmp_path):
    warehouse = str(tmp_path)
    with pkray.connect(warehouse) as catalog:
        table = catalog.create_table("db.t", [("id", "INT"), ("v", "STRING")], ["id"])
        with table.open_writer() as writer:
            writer.upsert([{"id": 1, "v": "a"}])
            writer.commit()
    other = RustCatalog(warehouse)
    other.sql("ALTER TABLE paimon.db.t ADD COLUMN w INT")
    other.sql("ALTER TABLE paimon.db.t RENAME COLUMN v TO u")
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        assert table.to_arrow().to_pylist() == [{"id": 1, "u": "a", "w": None}]
        with table.open_writer() as writer:
            writer.upsert([{"id": 2, "u": "b", "w": 5}])
            writer.commit(full_compact=True)
        expected = [(1, "a", None), (2, "b", 5)]
        assert rows_of(table.to_arrow(), ["id"]) == expected
    assert rows_of(other.read("db.t"), ["id"]) == expected
