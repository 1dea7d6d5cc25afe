import msgspec
import pytest

from pkray.checksums import seal_json
from pkray.errors import CorruptFileError, MissingFileError
from pkray.storage.sealed import read_sealed


class Count(msgspec.Struct):
    rows: int


def test_what_was_sealed_is_read_as_its_type(store):
    store.write("count", seal_json(b'{"rows": 3}'))
    assert read_sealed(store, "count", Count) == Count(3)


@pytest.mark.parametrize(
    "data",
    [
        seal_json(b'{"rows": 3}').replace(b"3", b"4", 1),
        seal_json(b'{"rows": "three"}'),
        b"",
        b'{"rows": 3',
    ],
)
def test_a_damaged_file_is_named(store, data):
    store.write("count", data)
    with pytest.raises(CorruptFileError, match=r"/count is damaged: ") as caught:
        read_sealed(store, "count", Count)
    assert caught.value.values["path"] == "count"


def test_a_file_that_is_not_there_is_missing(store):
    with pytest.raises(MissingFileError):
        read_sealed(store, "count", Count)
