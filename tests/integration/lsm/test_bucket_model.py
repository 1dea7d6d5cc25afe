"""A bucket under random histories, against a dict."""

import datetime
import decimal
import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.lsm_samples import KINDS, Bucket, apply_changelog, make_schema, rows_of

KEYS: dict[str, tuple[list[tuple[str, str]], st.SearchStrategy[Any]]] = {
    "bigint": ([("k", "BIGINT NOT NULL")], st.tuples(st.integers(-5, 5) | st.just(2**62))),
    "string": (
        [("k", "STRING NOT NULL")],
        st.tuples(st.sampled_from(["", "a", "a\0", "prefix-0", "prefix-01", "prefix-02", "z"])),
    ),
    "composite": (
        [("a", "INT NOT NULL"), ("b", "STRING NOT NULL")],
        st.tuples(st.integers(-2, 2), st.sampled_from(["", "x", "a-long-name-1", "a-long-name-2"])),
    ),
    "decimal": (
        [("k", "DECIMAL(30, 2) NOT NULL")],
        st.tuples(
            st.sampled_from([decimal.Decimal(n) / 100 for n in (-(10**25), -1, 0, 1, 10**25)])
        ),
    ),
    "date": (
        [("k", "DATE NOT NULL")],
        st.tuples(st.dates(datetime.date(1969, 12, 28), datetime.date(1970, 1, 4))),
    ),
}
VALUES = st.none() | st.sampled_from(["", "x", "yy"])

EXAMPLES = settings(
    max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def histories(keys: st.SearchStrategy[Any], kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy:
    row = st.tuples(st.sampled_from(kinds), keys, VALUES, st.none() | st.integers(-3, 3))
    step = st.one_of(
        st.lists(row, min_size=1, max_size=12),
        st.sampled_from(["flush", "compact", "full", "commit", "commit", "commit full", "reopen"]),
    )
    return st.lists(step, max_size=25)


def flat(row: tuple[Any, ...]) -> tuple[Any, ...]:
    kind, key, *values = row
    return (kind, *key, *values)


def step_on(bucket: Bucket, step: Any) -> list[tuple[Any, ...]] | None:
    """Carry out a step; the changelog of a commit."""
    if isinstance(step, list):
        bucket.write(*map(flat, step))
    elif step == "flush":
        bucket.writer.flush()
    elif step in ("compact", "full"):
        bucket.writer.compact(full=step == "full")
    elif step == "reopen":
        bucket.writer.abort()
        bucket.reopen()
    else:
        return bucket.commit(full=step == "commit full")
    return None


def lookup(bucket: Bucket, keys: list[tuple[Any, ...]]) -> dict[Any, Any]:
    names = bucket.schema.trimmed_primary_keys
    columns = [
        pa.array([key[n] for key in keys], bucket.schema.arrow_schema.field(name).type)
        for n, name in enumerate(names)
    ]
    wanted = pa.RecordBatch.from_arrays(columns, names=list(names))
    found = bucket.writer.uncommitted.lookup_memory(wanted, bucket.writer.levels)
    rows = rows_of([found])
    return {row[2 : 2 + len(names)]: (KINDS[row[1]], *row[2 + len(names) :]) for row in rows}


@pytest.mark.parametrize("kind", KEYS)
@EXAMPLES
@given(data=st.data())
def test_a_bucket_holds_the_last_row_of_each_key(kind: str, data: st.DataObject) -> None:
    producer = data.draw(st.sampled_from(["none", "input", "lookup", "full-compaction"]))
    columns, keys = KEYS[kind]
    names = [name for name, _ in columns]
    schema = make_schema(
        [*columns, ("v", "STRING"), ("n", "INT")],
        names,
        producer=producer,
        target="1 kb",
        trigger="3",
    )
    bucket = Bucket(schema)
    committed: dict[Any, Any] = {}
    written: dict[Any, Any] = {}
    in_memory: dict[Any, Any] = {}
    for step in data.draw(histories(keys)):
        step_on(bucket, step)
        if isinstance(step, list):
            for row_kind, key, *values in step:
                in_memory[key] = (row_kind, *values)
        elif step == "reopen":
            in_memory.clear()
            written = dict(committed)
        else:
            written |= in_memory
            in_memory.clear()
            if step.startswith("commit"):
                committed = dict(written)
        if in_memory:
            assert lookup(bucket, list(in_memory)) == in_memory
        assert bucket.content() == in_order(committed, bucket)
        assert bucket.latest() == in_order(written, bucket)


def in_order(state: dict[Any, Any], bucket: Bucket) -> list[tuple[Any, ...]]:
    def comparable(key: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(part.encode() if isinstance(part, str) else part for part in key)

    return [
        (*key, *state[key][1:])
        for key in sorted(state, key=comparable)
        if state[key][0] in ("+I", "+U")
    ]


@pytest.mark.parametrize("sequence", [None, "n"])
@pytest.mark.parametrize("row_deduplicate", ["true", "false"])
@pytest.mark.parametrize("trigger", ["2", "50"])
@EXAMPLES
@given(data=st.data())
def test_the_lookup_changelog_replays_to_the_table(
    sequence: str | None, row_deduplicate: str, trigger: str, data: st.DataObject
) -> None:
    options = {} if sequence is None else {"sequence": sequence}
    schema = make_schema(
        producer="lookup",
        row_deduplicate=row_deduplicate,
        trigger=trigger,
        target="1 kb",
        **options,
    )
    bucket = Bucket(schema)
    table: dict[Any, Any] = {}
    for step in data.draw(histories(KEYS["bigint"][1])):
        changes = step_on(bucket, step)
        if changes is not None:
            apply_changelog(changes, table)
            assert bucket.content() == [(key, *table[key]) for key in sorted(table)]
            if row_deduplicate == "true":
                assert_no_empty_updates(changes)


@pytest.mark.parametrize("sequence", [None, "n"])
@EXAMPLES
@given(data=st.data())
def test_the_full_compaction_changelog_replays_to_the_table(
    sequence: str | None, data: st.DataObject
) -> None:
    options = {} if sequence is None else {"sequence": sequence}
    schema = make_schema(producer="full-compaction", trigger="50", **options)
    bucket = Bucket(schema)
    table: dict[Any, Any] = {}
    for step in data.draw(histories(KEYS["bigint"][1])):
        changes = step_on(bucket, step)
        if changes is not None:
            apply_changelog(changes, table)
            if step == "commit full":
                assert bucket.content() == [(key, *table[key]) for key in sorted(table)]


def assert_no_empty_updates(changes: list[tuple[Any, ...]]) -> None:
    for old, new in itertools.pairwise(changes):
        if (old[0], new[0]) == ("-U", "+U"):
            assert old[1:] != new[1:]


@pytest.mark.parametrize("order", ["ascending", "descending"])
@EXAMPLES
@given(data=st.data())
def test_the_largest_sequence_wins_wherever_rows_meet(order: str, data: st.DataObject) -> None:
    schema = make_schema(sequence="n", order=order, trigger="3")
    bucket = Bucket(schema)
    written: dict[Any, Any] = {}
    pending: dict[Any, Any] = {}
    for step in data.draw(histories(KEYS["bigint"][1], ("+I", "+U"))):
        step_on(bucket, step)
        if isinstance(step, list):
            for _, key, value, number in step:
                best = pending.get(key, written.get(key))
                if best is None or not_older(number, best[1], order):
                    pending[key] = (value, number)
        elif step == "reopen":
            pending.clear()
            written = committed_of(bucket)
        else:
            written |= pending
            pending.clear()
        assert bucket.latest() == [(*key, *written[key]) for key in sorted(written)]


def committed_of(bucket: Bucket) -> dict[Any, Any]:
    return {(key,): tuple(values) for key, *values in bucket.content()}


def not_older(number: int | None, other: int | None, order: str) -> bool:
    """Null is the smallest either way."""
    if number is None or other is None:
        return other is None
    return number >= other if order == "ascending" else number <= other


@EXAMPLES
@given(data=st.data())
def test_a_delete_of_a_later_sequence_hides_what_is_older(data: st.DataObject) -> None:
    bucket = Bucket(make_schema(sequence="n", write_only="true"))
    best: dict[Any, Any] = {}
    for step in data.draw(histories(KEYS["bigint"][1])):
        if isinstance(step, list):
            step_on(bucket, step)
            for kind, (key,), value, number in step:
                if key not in best or not_older(number, best[key][2], "ascending"):
                    best[key] = (kind, value, number)
    bucket.commit()
    kept = {key: row[1:] for key, row in best.items() if row[0] in ("+I", "+U")}
    assert bucket.content() == [(key, *kept[key]) for key in sorted(kept)]
