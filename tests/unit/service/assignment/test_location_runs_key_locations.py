"""The map from keys to locations, against a dict; and the ids of keys."""

import errno

import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import StorageFullError
from pkray.service.assignment import location_runs
from pkray.service.assignment.location_runs import DELETED, NOWHERE, KeyLocations
from pkray.service.client.key_ids import KeyIds, identify
from tests.effort import examples


@pytest.fixture(params=[(4, 3), (1 << 18, 1 << 19)], ids=["files", "memory"])
def sizes(request, monkeypatch):
    memory, chunk = request.param
    monkeypatch.setattr(location_runs, "MEMORY_ROWS", memory)
    monkeypatch.setattr(location_runs, "CHUNK_ROWS", chunk)


def ids(pairs) -> KeyIds:
    array = np.array(sorted(pairs), np.uint64).reshape(-1, 2)
    return KeyIds(array[:, 0].copy(), array[:, 1].copy())


@pytest.mark.parametrize("seed", range(examples(12)))
def test_puts_against_a_dict(tmp_path, sizes, seed):
    random = np.random.default_rng(seed)
    gone = np.uint64(99)
    locations = KeyLocations(str(tmp_path), lambda held: held == gone)
    model: dict = {}
    every = [(high, low) for high in range(12) for low in range(4)]
    for _ in range(14):
        chosen = random.permutation(len(every))[: random.integers(0, 20)]
        keys = sorted(every[number] for number in chosen)
        values = random.choice(np.array([1, 2, 3, 99, int(DELETED)], np.uint64), len(keys))
        locations.put(ids(keys), values)
        model.update(zip(keys, values.tolist(), strict=True))
        found = locations.find(ids(every)).tolist()
        expected = [model.get(key, int(NOWHERE)) for key in every]
        without = {int(NOWHERE), int(DELETED), 99}
        for got, want in zip(found, expected, strict=True):
            assert got == want or {got, want} <= without
    chunks = list(locations.chunks())
    listed = {
        (high, low): place
        for piece in chunks
        for high, low, place in zip(
            piece.keys.high.tolist(), piece.keys.low.tolist(), piece.locations.tolist(), strict=True
        )
    }
    live = {key: place for key, place in model.items() if place in (1, 2, 3)}
    assert {key: place for key, place in listed.items() if place in (1, 2, 3)} == live
    assert not list(tmp_path.iterdir()), "mapped files have no names"


def test_a_full_disk_leaves_the_map_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(location_runs, "MEMORY_ROWS", 4)
    locations = KeyLocations(str(tmp_path))
    before = ids([(number, 0) for number in range(3)])
    locations.put(before, np.full(3, 7, np.uint64))

    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    more = ids([(number, 0) for number in range(10)])
    with monkeypatch.context() as broken:
        broken.setattr(location_runs.tempfile, "TemporaryFile", full)
        with pytest.raises(StorageFullError, match="index of the table's keys"):
            locations.put(more, np.full(10, 8, np.uint64))
    assert locations.find(more).tolist() == [7, 7, 7] + [int(NOWHERE)] * 7
    locations.put(more, np.full(10, 8, np.uint64))
    assert locations.find(more).tolist() == [8] * 10


def test_ids_tell_keys_apart_that_share_a_hash():
    # The top bits of both words of such keys cancel each other out in a hash of one round.
    pairs = [("xxxxxxx1xxx1xxx1", "xxxxxxxqxxxqxxxq"), ("a", "a\0"), ("", "\0")]
    for one, other in pairs:
        found = identify([pa.array([one, other])])
        assert found.high[0] != found.high[1] or found.low[0] != found.low[1]
    numbers = identify([pa.array(np.arange(100_000))])
    assert len(np.unique(numbers.high)) == len(np.unique(numbers.low)) == 100_000


def test_ids_are_of_values_not_of_types():
    small = identify([pa.array([1, -2], pa.int32()), pa.array(["a", "b"])])
    large = identify([pa.array([1, -2], pa.int64()), pa.array(["a", "b"])])
    assert small.high.tolist() == large.high.tolist()
    assert small.low.tolist() == large.low.tolist()
