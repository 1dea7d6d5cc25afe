"""Buckets that mark the rows they replace, under random histories, against a dict."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.lsm_samples import KINDS, Bucket, apply_changelog, make_schema


@pytest.mark.parametrize(
    ("engine", "producer", "sequence"),
    [
        ("deduplicate", "none", None),
        ("deduplicate", "input", None),
        ("deduplicate", "lookup", None),
        ("deduplicate", "none", "n"),
        ("deduplicate", "lookup", "n"),
        ("partial-update", "none", None),
        ("partial-update", "lookup", None),
        ("aggregation", "none", None),
        ("aggregation", "lookup", "n"),
    ],
)
@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_histories(engine: str, producer: str, sequence: str | None, data: st.DataObject) -> None:
    """Marked rows are gone, others not, whatever is flushed, compacted and killed between."""
    options = {} if sequence is None else {"sequence": sequence}
    if engine == "aggregation":
        options["fields.v.aggregate-function"] = "last_value"
    schema = make_schema(
        vectors="true", engine=engine, producer=producer, target="1 kb", trigger="3", **options
    )
    bucket = Bucket(schema)
    kinds = KINDS if engine == "deduplicate" and sequence is None else ("+I", "+U")
    committed: dict[Any, Any] = {}  # what readers see
    stored: dict[Any, Any] = {}  # with what is at level 0 since a crash
    written: dict[Any, Any] = {}
    in_memory: list[Any] = []
    replayed: dict[Any, Any] = {}
    for step in data.draw(histories(kinds)):
        if isinstance(step, list):
            bucket.write(*step)
            in_memory += step
            continue
        if step == "reopen":
            bucket.writer.abort()
            bucket.reopen()
            in_memory, written = [], dict(stored)
            continue
        for row in in_memory:
            merge(written, row, engine, sequence)
        in_memory = []
        if step == "flush":
            bucket.writer.flush()
        elif step in ("compact", "full"):
            bucket.writer.compact(full=step == "full")
        elif step == "crash":
            bucket.crash_before_compact()
            stored = dict(written)
        else:
            changes = bucket.commit(full=step == "commit full")
            committed = dict(written)
            stored = dict(written)
            assert_one_row_a_key(bucket)
            if producer != "lookup":
                assert not bucket.messages[-1].compact_changelog_files
            if producer == "lookup":
                apply_changelog(changes, replayed)
                assert {key: tuple(values) for key, values in replayed.items()} == committed
        assert bucket.content() == [(key, *committed[key]) for key in sorted(committed)]
        assert bucket.latest() == [(key, *written[key]) for key in sorted(written)]


def histories(kinds: tuple[str, ...]) -> st.SearchStrategy[Any]:
    values = st.none() | st.sampled_from(["x", "yy"])
    number = st.none() | st.integers(-3, 3)
    row = st.tuples(st.sampled_from(kinds), st.integers(-5, 9), values, number)
    steps = [
        "flush",
        "compact",
        "full",
        "commit",
        "commit",
        "commit",
        "commit full",
        "crash",
        "reopen",
    ]
    return st.lists(
        st.lists(row, min_size=1, max_size=8) | st.sampled_from(steps), min_size=4, max_size=25
    )


def merge(state: dict[Any, Any], row: Any, engine: str, sequence: str | None) -> None:
    kind, key, value, number = row
    if kind in ("-U", "-D"):
        state.pop(key, None)
        return
    old = state.get(key)
    if old is None:
        state[key] = (value, number)
        return
    if engine == "partial-update":
        state[key] = (old[0] if value is None else value, old[1] if number is None else number)
        return
    before = float("-inf") if old[1] is None else old[1]
    is_newer = sequence is None or before <= (float("-inf") if number is None else number)
    if engine == "deduplicate":
        state[key] = (value, number) if is_newer else old
    else:
        newest = (value, number) if is_newer else old
        state[key] = (newest[0], number if number is not None and is_newer else old[1])


def assert_one_row_a_key(bucket: Bucket) -> None:
    """What no vector marks above level 0 has each key once."""
    keys = [row[0] for row in bucket.content()]
    assert len(keys) == len(set(keys))
    names = {file.file_name for file in bucket.committed.files}
    assert set(bucket.committed.vectors) <= names
    assert {run.level for run in bucket.committed.runs()}.isdisjoint({0})
