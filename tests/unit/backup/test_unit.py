"""Lists of files are read as they were written, or not at all."""

import pytest

from pkray.backup.unit import Copied, copy, digest_of, look_at, read_list, write_list
from pkray.errors import CorruptFileError, StorageError


def test_a_list_is_read_as_it_was_written(store):
    shared = {"bucket-0/data": Copied(7, digest_of(b"7 bytes"))}
    digest = write_list(store, "list", {"schema/schema-0": b"{}", "tag/tag-a": b""}, shared)
    found = read_list(store, "list", digest)
    assert found.small == {"schema/schema-0": b"{}", "tag/tag-a": b""}
    assert found.shared == shared


def test_a_list_that_was_changed_is_refused(store):
    digest = write_list(store, "list", {"schema/schema-0": b"{}"}, {})
    write_list(store, "list", {"schema/schema-0": b"{ }"}, {})
    with pytest.raises(CorruptFileError, match="damaged"):
        read_list(store, "list", digest)


@pytest.mark.parametrize("kind", ["small", "shared"])
def test_a_list_that_names_files_elsewhere_is_refused(store, kind):
    small = {"../out": b"x"} if kind == "small" else {}
    shared = {} if kind == "small" else {"../out": Copied(1, digest_of(b"x"))}
    digest = write_list(store, "list", small, shared)
    with pytest.raises(StorageError, match="lead to other folders"):
        read_list(store, "list", digest)


def test_a_copy_says_what_it_copied(store):
    store.write("from", b"x" * (9 << 20))
    made = copy(store, "from", store, "to")
    assert made == look_at(store, "to") == Copied(9 << 20, digest_of(b"x" * (9 << 20)))
