import datetime
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pkray.relational.continuous.state import row_cache
from pkray.relational.continuous.state.row_cache import HashesCollideError, RowCache

TYPES = [pa.int64(), pa.string(), pa.bool_(), pa.decimal128(30, 2)]


def of(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.binary())


def found(cache: RowCache, keys: list[bytes]) -> dict[bytes, tuple[Any, ...]]:
    positions, columns = cache.rows_at(cache.slots(of(keys)))
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return {keys[position]: row for position, row in zip(positions.tolist(), rows, strict=True)}


def random_row(rng: random.Random) -> tuple[Any, ...]:
    values = (
        rng.randrange(-9, 9),
        rng.choice(["", "a", "longer than eight bytes"]),
        rng.random() < 0.5,
        Decimal(rng.randrange(10**20)) / 100,
    )
    return tuple(None if rng.random() < 0.2 else value for value in values)


def columns_of(rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(TYPES)]


def test_what_was_put_last_is_found() -> None:
    rng = random.Random(5)
    cache, model = RowCache(TYPES, is_complete=True), dict[bytes, tuple[Any, ...]]()
    names = [bytes(rng.choices(range(3), k=rng.randrange(12))) for _ in range(400)]
    for size in (1, 300, 5, 0, 150):
        keys = rng.choices(names, k=size)
        rows = [random_row(rng) for _ in keys]
        cache.put(of(keys), columns_of(rows))
        model.update(zip(keys, rows, strict=True))
        gone = rng.choices(names, k=size // 3)
        cache.remove(of(gone))
        for key in gone:
            model.pop(key, None)
        assert found(cache, names) == model
        assert cache.rows == len(model)


def test_of_a_key_put_twice_at_once_the_last_row_counts() -> None:
    cache = RowCache([pa.int64()], is_complete=True)
    cache.put(of([b"a"]), [pa.array([1])])
    cache.put(of([b"b", b"a", b"b", b"c", b"a"]), [pa.array([2, 3, 4, 5, 6])])
    assert found(cache, [b"a", b"b", b"c"]) == {b"a": (6,), b"b": (4,), b"c": (5,)}
    cache.put(of([bytes([each]) for each in range(100)]), [pa.array(range(100))])
    assert found(cache, [b"a", b"b", b"c"]) == {b"a": (97,), b"b": (98,), b"c": (99,)}


def test_what_was_used_lately_stays() -> None:
    cache = RowCache([pa.int64(), pa.string()], is_complete=True)
    keys = [number.to_bytes(8, "big") for number in range(10_000)]
    values = [pa.array(range(10_000)), pa.array([f"{each:040}" for each in range(10_000)])]
    cache.put(of(keys), values)
    cache.slots(of(keys[5000:5100]))
    limit = cache.nbytes // 4
    cache.shrink(limit)
    assert cache.nbytes <= limit
    assert not cache.is_complete
    assert 500 < cache.rows < 5000
    kept = found(cache, keys[5000:5100])
    assert kept == {key: (i, f"{i:040}") for i, key in enumerate(keys[5000:5100], 5000)}


def test_nothing_stays_where_nothing_may() -> None:
    cache = RowCache([pa.int64()], is_complete=True)
    cache.put(of([b"a"]), [pa.array([1])])
    cache.shrink(0)
    assert cache.rows == 0
    assert cache.slots(of([b"a"])).tolist() == [-1]


def test_texts_that_are_replaced_do_not_pile_up() -> None:
    cache = RowCache([pa.string()], is_complete=True)
    keys = [number.to_bytes(8, "big") for number in range(100)]
    for epoch in range(200):
        cache.put(of(keys), [pa.array([f"{epoch:0100}"] * 100)])
    assert cache.nbytes < 100_000
    assert set(found(cache, keys).values()) == {(f"{199:0100}",)}


def test_keys_of_one_hash_are_not_taken_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_alike(columns: list[pa.Array]) -> np.ndarray:
        return np.zeros(len(columns[0]), np.uint64)

    monkeypatch.setattr(row_cache, "hash_keys", all_alike)
    cache = RowCache([pa.int64()], is_complete=True)
    with pytest.raises(HashesCollideError):
        cache.put(of([b"a", b"b"]), [pa.array([1, 2])])
    cache = RowCache([pa.int64()], is_complete=True)
    cache.put(of([b"a"]), [pa.array([1])])
    with pytest.raises(HashesCollideError):
        cache.slots(of([b"b"]))


def test_slices_and_every_type_of_fixed_width_are_kept() -> None:
    day = datetime.date(2026, 1, 1)
    time = datetime.datetime(2026, 1, 1, 2, 3)
    arrays = [
        pa.array([0, 1, None, -3], pa.int8()),
        pa.array([0.0, -0.0, None, float("inf")], pa.float32()),
        pa.array([False, True, None, True]),
        pa.array([day, day, None, day], pa.date32()),
        pa.array([time, time, None, time], pa.timestamp("us")),
        pa.array([b"", b"a\0b", None, b"c"], pa.binary()),
    ]
    assert RowCache.holds([array.type for array in arrays])
    cache = RowCache([array.type for array in arrays], is_complete=True)
    keys = of([b"x", b"a", b"b", b"c"]).slice(1)
    cache.put(keys, [array.slice(1) for array in arrays])
    positions, columns = cache.rows_at(cache.slots(keys))
    assert positions.tolist() == [0, 1, 2]
    assert [column.to_pylist() for column in columns] == [a.slice(1).to_pylist() for a in arrays]
    assert not RowCache.holds([pa.list_(pa.int64())])
