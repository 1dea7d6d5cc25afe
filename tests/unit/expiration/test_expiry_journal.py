"""The record of an expiry that is under way."""

import json

from pkray.expiration.expiry_journal import PATH, Expiring, ExpiryJournal
from pkray.storage.opening import open_store
from tests.unit.format.test_snapshot import SNAPSHOT


def test_a_record_keeps_the_names_that_older_versions_read(request):
    store = open_store(f"memory://{request.node.name}")
    begun = Expiring(token="t", expired=(SNAPSHOT,), kept=SNAPSHOT)
    assert ExpiryJournal(store).begin(begun)
    names = ["token", "dead", "kept", "changelogs", "keep_changelogs"]
    assert list(json.loads(store.read(PATH)))[: len(names)] == names
    assert ExpiryJournal(store).read() == begun
