"""Partitions that others drop while a commit to them is under way."""

import pytest

import pkray
from pkray.commit.committer import Committer

ROWS = 5_000
"""So many that a few more are not merged with them, but compared."""


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update"])
def test_rows_are_not_compared_with_what_is_gone(tmp_path, monkeypatch, engine):
    options = {"merge-engine": engine, "changelog-producer": "lookup"}
    columns = [("p", "STRING"), ("k", "BIGINT"), ("n", "BIGINT")]
    with pkray.connect(tmp_path) as catalog, pkray.connect(tmp_path) as other:
        table = catalog.create_table("db.t", columns, ["p", "k"], ["p"], options)
        with table.open_writer() as writer:
            writer.upsert([{"p": p, "k": k, "n": 1} for p in "ab" for k in range(ROWS)])
            writer.commit(full_compact=True)
        drop, commit = [other.load_table("db.t").drop_partitions], Committer.commit

        def commit_late(self, *args, **how):
            if drop:
                drop.pop()([{"p": "a"}])
            return commit(self, *args, **how)

        monkeypatch.setattr(Committer, "commit", commit_late)
        before = table.latest_snapshot().id
        table.upsert([{"p": "a", "k": 7, "n": 2}])
        assert not drop
        assert table.to_arrow(filter="p = 'a'").to_pylist() == [{"p": "a", "k": 7, "n": 2}]
        changes = table.changelog(before + 1)
        assert changes.select(["_row_kind", "k", "n"]).to_pylist() == [
            {"_row_kind": "+I", "k": 7, "n": 2}
        ]
