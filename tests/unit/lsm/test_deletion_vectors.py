"""Commits mark the rows they replace instead of rewriting files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lsm_samples import KINDS, Bucket, apply_changelog, make_schema

from pkray.format.commit_message import files_digest
from pkray.format.index_file import DELETION_VECTORS
from tests.effort import examples

MANY = 500


def large_bucket(**options: str) -> Bucket:
    bucket = Bucket(make_schema(vectors="true", **options))
    bucket.write(*[("+I", key, f"value-{key}", key % 7) for key in range(MANY)])
    bucket.commit()
    return bucket


def marked(bucket: Bucket) -> dict[str, list[int]]:
    return {name: v.positions.tolist() for name, v in bucket.committed.vectors.items()}


def test_a_commit_of_few_keys_rewrites_no_file_of_a_large_bucket() -> None:
    bucket = large_bucket()
    (large,) = bucket.committed.files
    bucket.write(("+U", 7, "new", 1), ("-D", 499, None, None), ("+I", MANY, "new", 1))
    bucket.commit()
    message = bucket.messages[-1]
    assert large in bucket.committed.files
    assert {file.file_name for file in message.compact_before} == {
        file.file_name for file in message.new_files
    }
    assert sum(file.row_count for file in message.compact_after) == 2
    assert sum(file.file_size for file in message.index_files) < 100
    assert marked(bucket) == {large.file_name: [7, 499]}


def test_an_upgraded_file_marks_what_its_rows_replace() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1), ("+U", 6, "new", 1))
    bucket.commit()
    (new,) = bucket.messages[-1].new_files
    (moved,) = bucket.messages[-1].compact_after
    assert moved.file_name == new.file_name
    assert list(marked(bucket).values()) == [[5, 6]]


def test_vectors_of_files_that_disappear_go_from_the_index() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1))
    bucket.commit()
    bucket.commit(full=True)
    message = bucket.messages[-1]
    assert message.removed_index_types == (DELETION_VECTORS,)
    assert message.index_files == ()
    (file,) = bucket.committed.files
    assert file.row_count == MANY
    assert not bucket.committed.vectors


def test_a_full_compaction_rewrites_a_file_for_its_marked_rows_alone() -> None:
    bucket = large_bucket()
    bucket.write(("-D", 5, None, None))
    bucket.commit()
    (file,) = bucket.committed.files
    assert file.row_count == MANY
    assert marked(bucket) == {file.file_name: [5]}
    bucket.commit(full=True)
    (file,) = bucket.committed.files
    assert file.row_count == MANY - 1


def test_a_commit_without_rows_changes_no_index() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1))
    bucket.commit()
    bucket.commit()
    assert bucket.messages[-1].index_types == set()


def test_an_index_starts_from_the_one_handed_over_before() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1))
    first = bucket.writer.prepare_commit()
    bucket.write(("+U", 6, "new", 1))
    second = bucket.writer.prepare_commit()
    assert first.index_base == ()
    assert second.index_base == tuple(file.file_name for file in first.index_files)


def test_a_message_tells_the_files_it_reckons_with() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1))
    bucket.commit()
    empty, message = bucket.messages
    assert empty.upper_files == files_digest([])
    large = empty.compact_after[0]
    assert message.upper_files == files_digest([(large.level, large.file_name)])


def test_marks_go_with_the_compaction_that_is_undone() -> None:
    bucket = large_bucket()
    mine = bucket.writer
    bucket.write(("+U", 5, "mine", 1))
    mine.flush()
    mine.compact()
    bucket.reopen()
    bucket.write(("+U", 6, "theirs", 1))
    bucket.commit()
    bucket.writer = mine
    mine.rebase(bucket.committed)
    bucket.commit()
    changed = [row for row in bucket.content() if row[1] in ("mine", "theirs")]
    assert changed == [(5, "mine", 1), (6, "theirs", 1)]
    assert len(bucket.content()) == MANY


def test_vectors_go_to_several_files_beyond_the_target_size() -> None:
    bucket = Bucket(
        make_schema(
            vectors="true",
            target="4 kb",
            **{"deletion-vector.index-file.target-size": "1 b"},
        )
    )
    bucket.write(*[("+I", key, f"value-{key}", key % 7) for key in range(0, MANY, 2)])
    bucket.commit()
    bucket.write(*[("+I", key, f"value-{key}", key % 7) for key in range(1, MANY, 2)])
    bucket.commit(full=True)
    bucket.write(*[("-D", key, None, None) for key in range(0, MANY, 100)])
    bucket.commit()
    files = bucket.messages[-1].index_files
    assert len(files) == len(bucket.committed.vectors) > 2
    assert len(bucket.content()) == MANY - MANY // 100


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
@settings(
    max_examples=examples(5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
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
