import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pkray.clock import now_millis
from pkray.format.data_file import DataFileMeta
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.store import LookupStore
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import Found, State, StateSpec
from pkray.relational.continuous.state.states import States
from pkray.storage.opening import open_store
from tests.waiting import wait_until

SPEC = StateSpec(pa.schema([("v", pa.int64())]), by_row=True)


@pytest.fixture
def lookups(tmp_path: Path) -> Iterator[LookupStore]:
    limits = CopyLimits(1 << 30, 1 << 26, 3_600_000)
    store = LookupStore(str(tmp_path / "lookups"), limits, clock=now_millis)
    yield store
    store.close()


def opened(tmp_path: Path, lookups: LookupStore, **how: Any) -> State:
    return State(SPEC, open_store(str(tmp_path / "state")), lookups, **how)


def of(values: list[bytes]) -> pa.Array:
    return pa.array(values, pa.binary())


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def answers(found: Found, asked: int) -> list[list[tuple[bytes, int]]]:
    lists: list[list[tuple[bytes, int]]] = [[] for _ in range(asked)]
    assert found.row_keys is not None
    rows = zip(found.row_keys.to_pylist(), found.column("v").to_pylist(), strict=True)
    for position, row in zip(found.positions.tolist(), rows, strict=True):
        lists[position].append(row)
    return lists


class Model:
    """Rows by key and row key, in memory."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[bytes, int]] = {}

    def change(self, state: State, rng: random.Random, size: int, rows: int) -> None:
        chosen = {
            (rng.choice([b"a", b"b", b"b", b"b", b"c"]), number(rng.randrange(rows)))
            for _ in range(size)
        }
        pairs = sorted(chosen)
        puts = [pair for pair in pairs if rng.random() < 0.5]
        removes = [pair for pair in pairs if pair not in set(puts)]
        values = [rng.randrange(100) for _ in puts]
        keys, row_keys = of([key for key, _ in puts]), of([row for _, row in puts])
        state.put(keys, [pa.array(values, pa.int64())], row_keys)
        state.remove(of([key for key, _ in removes]), of([row for _, row in removes]))
        for (key, row), value in zip(puts, values, strict=True):
            self.rows.setdefault(key, {})[row] = value
        for key, row in removes:
            self.rows.get(key, {}).pop(row, None)

    def of(self, key: bytes) -> list[tuple[bytes, int]]:
        return sorted(self.rows.get(key, {}).items())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("memory", [8 << 10, 64 << 20])
@pytest.mark.parametrize("rows", [20, 9000])
def test_the_first_and_the_last_rows_of_keys_are_found(
    tmp_path: Path, lookups: LookupStore, rows: int, memory: int
) -> None:
    rng = random.Random(f"{rows} {memory}")
    state, model = opened(tmp_path, lookups, memory=memory), Model()
    for size in (10, 8000, 30, 3000, 5, 2000):
        model.change(state, rng, size, rows)
        if rng.random() < 0.3:
            state.checkpoint()
        keys = [b"b", b"none", b"a", b"c"]
        for count in (1, 3, 40, rows + 1):
            expected = [model.of(key) for key in keys]
            found = answers(state.rows_of(of(keys), first=count), len(keys))
            assert found == [each[:count] for each in expected]
            found = answers(state.rows_of(of(keys), last=count), len(keys))
            assert found == [each[-count:] for each in expected]
            assert_around(state, model, rng, rows, count)


def assert_around(state: State, model: Model, rng: random.Random, rows: int, count: int) -> None:
    keys = [rng.choice([b"a", b"b", b"none"]) for _ in range(6)]
    bounds = [number(rng.randrange(rows + 1)) for _ in keys]
    after = answers(state.rows_of(of(keys), first=count, bounds=of(bounds)), len(keys))
    before = answers(state.rows_of(of(keys), last=count, bounds=of(bounds)), len(keys))
    for place, (key, bound) in enumerate(zip(keys, bounds, strict=True)):
        all_rows = model.of(key)
        at = bisect_left(all_rows, (bound, -1))
        assert after[place] == all_rows[at : at + count]
        assert before[place] == all_rows[max(at - count, 0) : at]


def test_rows_under_many_removed_ones_are_found(tmp_path: Path, lookups: LookupStore) -> None:
    state = opened(tmp_path, lookups, memory=8 << 10)
    rows = of([number(each) for each in range(5000)])
    keys = of([b"k"] * 5000)
    state.put(keys, [pa.array(range(5000), pa.int64())], rows)
    state.checkpoint()
    state.remove(keys[:4990], rows[:4990])
    found = state.rows_of(of([b"k"]), first=3)
    assert found.column("v").to_pylist() == [4990, 4991, 4992]


def test_expired_rows_are_no_first_rows(tmp_path: Path, lookups: LookupStore) -> None:
    state = opened(tmp_path, lookups, ttl=10)
    state.put(of([b"k"] * 3), [pa.array([1, 2, 3])], of([b"1", b"2", b"3"]))
    state.now = 9
    state.put(of([b"k"]), [pa.array([9])], of([b"9"]))
    state.now = 12
    found = state.rows_of(of([b"k"]), first=2)
    assert found.column("v").to_pylist() == [9]


def test_the_first_rows_of_a_long_key_are_read_alone(
    tmp_path: Path, lookups: LookupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened(tmp_path, lookups, memory=64 << 20)
    rows = 50_000
    state.put(
        of([b"k"] * rows),
        [pa.array(range(rows), pa.int64())],
        of([number(each) for each in range(rows)]),
    )
    state.checkpoint()
    state.rows_of(of([b"k"]), first=1)  # makes the copy
    read = 0
    locate = LookupStore._around

    def counted(self: LookupStore, *arguments: Any) -> Any:
        nonlocal read
        found = locate(self, *arguments)
        read += found[0].num_rows
        return found

    monkeypatch.setattr(LookupStore, "_around", counted)
    state.rows_of(of([b"k"]), last=3)
    state.rows_of(of([b"k"]), first=3, bounds=of([number(30_000)]))
    assert 0 < read < 1000


def test_states_together_hold_no_more_than_they_may() -> None:
    states = States(memory=1 << 20)
    spec = StateSpec(pa.schema([("v", pa.int64())]))
    opened = [states.open(str(number), spec, 0) for number in range(12)]
    values = pa.array(np.arange(8_000))
    for state in opened:
        state.put(encoded([values]), [values])
        states.fit()
        assert sum(each.memory_bytes for each in opened) <= 1 << 20
    assert all(len(state.get(encoded([values])).positions) == 8_000 for state in opened)
    states.close()


FOLD = StateSpec(pa.schema([("v", pa.int64()), ("s", pa.string())]))


class Fold:
    """A state of one row a key, and what it should hold."""

    def __init__(self, states: States, rng: random.Random, keys: int) -> None:
        self.state = states.open("s", FOLD, 0)
        self.keys = [number(each) for each in range(keys)]
        self.rng = rng
        self.rows: dict[bytes, tuple[int, str]] = {}

    def change(self, size: int) -> None:
        puts = self.rng.sample(self.keys, size)
        values = [(self.rng.randrange(9), f"{self.rng.randrange(99):050}") for _ in puts]
        self.state.put(of(puts), [pa.array(each) for each in zip(*values, strict=True)])
        self.rows.update(zip(puts, values, strict=True))
        gone = self.rng.sample(self.keys, size // 4)
        self.state.remove(of(gone))
        for key in gone:
            self.rows.pop(key, None)

    def check(self, size: int) -> None:
        asked = self.rng.choices(self.keys, k=size)
        found = self.state.get(of(asked))
        pairs = zip(*(column.to_pylist() for column in found.rows.columns), strict=True)
        rows = {asked[at]: row for at, row in zip(found.positions.tolist(), pairs, strict=True)}
        assert rows == {key: self.rows[key] for key in asked if key in self.rows}
        assert (np.diff(found.positions) >= 0).all()


@pytest.mark.parametrize("memory", [0, 100_000, 400_000, 64 << 20])
def test_rows_are_found_in_memory_and_in_files_alike(memory: int) -> None:
    rng = random.Random(memory)
    states = States(memory=memory)
    fold = Fold(states, rng, 3000)
    for size in (1000, 30, 500, 1000, 4, 200):
        fold.change(size)
        states.fit()
        assert states.opened["s"].memory_bytes <= memory
        if rng.random() < 0.4:
            states.checkpoint()
        fold.check(5)
        fold.check(1500)
    states.close()


@pytest.mark.parametrize("size", [5, 2000])
def test_a_state_goes_on_from_the_files_of_a_checkpoint(tmp_path: Path, size: int) -> None:
    store = open_store(str(tmp_path))
    before = States(store)
    before.begin({})
    fold = Fold(before, random.Random(size), 3000)
    fold.change(2000)
    files = before.checkpoint()
    kept = dict(fold.rows)
    fold.change(2000)  # which no checkpoint has
    before.close()
    after = States(store)
    after.begin(files)
    again = Fold(after, random.Random(1), 3000)
    again.rows = kept
    for _ in range(6):
        again.check(size)
        again.change(size)
    after.close()


def test_expired_rows_are_not_found_in_memory_either() -> None:
    states = States()
    state = states.open("s", FOLD, 10)
    state.put(of([b"a", b"b"]), [pa.array([1, 2]), pa.array(["x", "y"])])
    state.now = 5
    state.put(of([b"b"]), [pa.array([3]), pa.array(["z"])])
    state.now = 12
    found = state.get(of([b"a", b"b"]))
    assert found.positions.tolist() == [1]
    assert found.column("v").to_pylist() == [3]
    states.close()


def test_rows_are_counted_in_memory_and_in_files() -> None:
    states = States()
    state = states.open("s", FOLD, 0)
    state.put(of([number(each) for each in range(10)]), [pa.array(range(10)), pa.array(["x"] * 10)])
    state.put(of([number(3)]), [pa.array([1]), pa.array(["y"])])
    state.remove(of([number(4)]))
    assert state.rows == 9
    states.begin(states.checkpoint())
    assert states.open("s", FOLD, 0).rows == 9
    states.close()


def test_columns_that_an_older_version_had_not_are_null_in_its_rows(
    tmp_path: Path, lookups: LookupStore
) -> None:
    def open_state(names: Sequence[str], files: Sequence[DataFileMeta] = ()) -> State:
        spec = StateSpec(pa.schema([(name, pa.int64()) for name in names]))
        return State(spec, open_store(str(tmp_path / "state")), lookups, files)

    keys = of([b"a", b"b"])
    first = open_state(["u", "w"])
    first.put(keys, [pa.array([1, 2]), pa.array([3, 4])])
    files = first.checkpoint()
    second = open_state(["u", "v", "w"], files)
    assert second.get(keys).rows.to_pylist() == [
        {"u": 1, "v": None, "w": 3},
        {"u": 2, "v": None, "w": 4},
    ]
    second.put(keys.slice(1), [pa.array([5]), pa.array([6]), pa.array([7])])
    third = open_state(["u", "v", "w"], second.checkpoint())
    assert third.get(keys).rows.to_pylist() == [
        {"u": 1, "v": None, "w": 3},
        {"u": 5, "v": 6, "w": 7},
    ]


@pytest.mark.parametrize("by_row", [False, True])
def test_a_state_goes_on_under_another_ttl(
    tmp_path: Path, lookups: LookupStore, by_row: bool
) -> None:
    def rows(*names: bytes) -> pa.Array | None:
        return of(list(names)) if by_row else None

    def open_state(files: Sequence[DataFileMeta] = (), ttl: int = 0) -> State:
        spec = replace(SPEC, by_row=by_row)
        return State(spec, open_store(str(tmp_path / "state")), lookups, files, ttl=ttl)

    first = open_state()
    first.put(of([b"a", b"b"]), [pa.array([1, 2])], rows(b"a", b"b"))
    files = first.checkpoint()
    second = open_state(files, ttl=10)
    second.now = 5
    second.put(of([b"b", b"c"]), [pa.array([3, 4])], rows(b"b", b"c"))
    second.remove(of([b"d"]), rows(b"d"))
    second.now = 20
    asked = of([b"a", b"b", b"c", b"d"])
    assert second.get(asked, rows(b"a", b"b", b"c", b"d")).column("v").to_pylist() == [1]
    files = second.checkpoint()
    third = open_state(files)
    found = third.get(asked, rows(b"a", b"b", b"c", b"d"))
    assert found.column("v").to_pylist() == [1, 3, 4]  # those that were forgotten are there again
    third.now = 21
    third.put(of([b"a"]), [pa.array([5])], rows(b"a"))
    files = third.checkpoint()
    fourth = open_state(files, ttl=10)
    fourth.now = 30
    assert fourth.get(asked, rows(b"a", b"b", b"c", b"d")).column("v").to_pylist() == [5]


def test_files_are_copied_to_be_looked_up_in_before_one_asks(tmp_path: Path) -> None:
    limits = CopyLimits(1 << 30, 1 << 26, 3_600_000)
    lookups = LookupStore(str(tmp_path / "l"), limits, clock=now_millis, in_background=True)
    state = opened(tmp_path, lookups)
    rows = 10_000
    keys, values = of([number(each) for each in range(rows)]), pa.array(range(rows))
    row_keys = of([b"r"] * rows)
    state.put(keys, [values], row_keys)
    state.checkpoint()
    wait_until(lambda: lookups.stats().files == 1)
    before = lookups.stats().builds
    assert state.get(keys, row_keys).column("v").to_pylist() == list(range(rows))
    assert lookups.stats().builds == before
    for _ in range(6):  # a compaction leaves fewer files, whose copies alone stay
        state.put(keys, [values], row_keys)
        files = state.checkpoint()
    wait_until(lambda: lookups.stats().files == len(files) and not lookups.stats().making)
    lookups.close()


def test_files_of_rows_that_are_all_in_memory_are_not_copied() -> None:
    states = States()
    state = states.open("s", FOLD, 0)
    keys = of([number(each) for each in range(10_000)])
    state.put(keys, [pa.array(range(10_000)), pa.array(["x"] * 10_000)])
    states.checkpoint()
    assert len(state.get(keys).positions) == 10_000
    stats = states._lookups.stats()
    assert (stats.builds, stats.making, stats.scans) == (0, 0, 0)
    states.close()
