"""A table replaced in the moment between a commit's check and its snapshot."""

import pytest

from pkray.commit.committer import Committer
from pkray.errors import TableNotFoundError, TableReplacedError
from pkray.metadata.schemas import TableIdentity
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.opening import open_store
from tests.commit_samples import WrappedStore, data_file, message, schema


@pytest.mark.parametrize(
    ("there", "error"), [(b"another", TableReplacedError), (None, TableNotFoundError)]
)
@pytest.mark.parametrize("local", [True, False])
def test_a_snapshot_that_got_into_another_table_is_withdrawn(tmp_path, there, error, local):
    store = open_store(tmp_path)
    store.create("schema/schema-0", b"the one")

    def replaced(path, create):
        if path.startswith("snapshot/"):
            store.delete("schema/schema-0")
            if there is not None:
                store.create("schema/schema-0", there)
        return create()

    watched = WrappedStore(store, replaced, local)
    identity = TableIdentity(watched, "db.t")
    committer = Committer(watched, schema(), "u", identity=identity)
    with pytest.raises(error, match=r"db\.t"):
        committer.commit(1, [message([data_file("a")])])
    assert SnapshotStore(store).ids() == []
    assert list(store.list("snapshot")) == []
