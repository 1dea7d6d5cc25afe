"""The rules of universal compaction, one by one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkray.format.data_file import SimpleStats
from pkray.lsm.compaction.pick import (
    SINGLE_VERSION_BYTES,
    CompactionUnit,
    comparable_sizes,
    forces_level_0_up,
    pick,
    pick_full,
    pick_small,
    with_single_version,
)
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import SortedRun
from pkray.options import TableOptions
from tests.lsm_samples import make_schema, run_of

DEFAULT = TableOptions.parse({})
TOP = 5


def runs_of(*levels_and_sizes: tuple[int, int]) -> list[SortedRun]:
    """Sizes in MB."""
    return [sized(level, size << 20, size << 20) for level, size in levels_and_sizes]


def taken(unit: CompactionUnit | None) -> tuple[int, int] | None:
    """(number of runs, output level)."""
    return None if unit is None else (len(unit.runs), unit.output_level)


def test_nothing_below_the_trigger() -> None:
    assert pick(runs_of((0, 1), (0, 1), (0, 1), (0, 1)), DEFAULT) is None


def test_size_amplification_compacts_everything_to_the_top() -> None:
    runs = runs_of((0, 51), (0, 50), (0, 50), (0, 50), (5, 100))
    assert taken(pick(runs, DEFAULT)) == (5, TOP)


def test_size_amplification_of_exactly_the_limit_does_not() -> None:
    runs = runs_of((0, 10), (0, 20), (0, 60), (0, 110), (5, 100))
    assert pick(runs, DEFAULT) is None


def test_size_ratio_takes_runs_that_are_not_much_larger() -> None:
    runs = runs_of((0, 10), (0, 10), (0, 20), (3, 1000), (5, 10_000))
    assert taken(pick(runs, DEFAULT)) == (3, 2)


def test_size_ratio_counts_its_percent() -> None:
    close = runs_of((0, 100), (3, 101), (4, 1000), (4, 1000), (5, 10_000))
    assert taken(pick(close, DEFAULT)) == (2, 3)
    far = runs_of((0, 100), (3, 102), (4, 1000), (4, 1000), (5, 10_000))
    assert pick(far, DEFAULT) is None


def test_size_ratio_of_all_runs_goes_to_the_top() -> None:
    runs = runs_of((0, 10), (0, 10), (0, 20), (0, 40), (5, 80))
    assert taken(pick(runs, DEFAULT)) == (5, TOP)


def test_what_was_triggered_also_takes_level_0_and_1() -> None:
    runs = runs_of((0, 10), (0, 10), (0, 500), (1, 5000), (3, 10**6))
    assert taken(pick(runs, DEFAULT)) == (4, 2)


def test_too_many_runs_are_brought_down_to_the_trigger() -> None:
    runs = runs_of((0, 1), (0, 10), (2, 100), (3, 1000), (4, 10_000), (5, 100_000))
    assert taken(pick(runs, DEFAULT)) == (2, 1)


def test_output_is_never_level_0() -> None:
    runs = runs_of((0, 10), (0, 10), (1, 9000), (4, 10**5), (5, 10**7))
    assert taken(pick(runs, DEFAULT)) == (3, 3)


def test_forcing_level_0_up_takes_what_no_rule_asks_for() -> None:
    runs = runs_of((0, 1), (5, 1000))
    assert pick(runs, DEFAULT) is None
    assert taken(pick(runs, DEFAULT, force_level_0=True)) == (1, 4)


def test_forcing_level_0_up_without_level_0_does_nothing() -> None:
    assert pick(runs_of((4, 1), (5, 1000)), DEFAULT, force_level_0=True) is None


def test_forcing_level_0_up_merges_with_a_level_of_like_size() -> None:
    runs = runs_of((0, 100), (4, 100), (5, 1000))
    assert taken(pick(runs, DEFAULT, force_level_0=True)) == (2, 4)


def test_forcing_level_0_up_the_first_time_reaches_the_top() -> None:
    assert taken(pick(runs_of((0, 1)), DEFAULT, force_level_0=True)) == (1, TOP)


def test_full_compaction_takes_all() -> None:
    assert taken(pick_full(runs_of((0, 1), (5, 1000)), DEFAULT)) == (2, TOP)
    assert taken(pick_full(runs_of((3, 1)), DEFAULT)) == (1, TOP)


def test_full_compaction_of_the_top_level_alone_is_nothing() -> None:
    assert pick_full(runs_of((5, 10)), DEFAULT) is None
    assert pick_full([], DEFAULT) is None


def test_levels_that_an_option_does_not_know_still_count() -> None:
    options = TableOptions.parse({"num-sorted-run.compaction-trigger": "2"})
    assert taken(pick_full(runs_of((0, 1), (7, 10)), options)) == (2, 7)


def test_num_levels_sets_the_top() -> None:
    options = TableOptions.parse({"num-levels": "3"})
    assert taken(pick_full(runs_of((0, 1)), options)) == (1, 2)


@pytest.mark.parametrize(
    "options", [{"producer": "lookup"}, {"vectors": "true"}, {"engine": "first-row"}]
)
def test_who_forces_level_0_up(options: dict[str, str]) -> None:
    assert forces_level_0_up(make_schema(**options))
    assert not forces_level_0_up(make_schema())


@given(
    st.lists(st.integers(1, 10_000), max_size=12),
    st.dictionaries(st.integers(1, 5), st.integers(1, 100_000)),
    st.booleans(),
)
def test_what_is_picked_keeps_the_runs_in_order(
    fresh: list[int], levels: dict[int, int], force: bool
) -> None:
    runs = runs_of(*[(0, size) for size in fresh], *sorted(levels.items()))
    unit = pick(runs, DEFAULT, force_level_0=force)
    if unit is None:
        assert len(runs) <= DEFAULT.compaction_trigger
        assert not force or not fresh
        return
    assert list(unit.runs) == runs[: len(unit.runs)]
    left = runs[len(unit.runs) :]
    assert all(run.level > unit.output_level for run in left)
    assert unit.output_level > 0
    assert unit.output_level == TOP or left


def sized(level: int, size: int, rows: int) -> SortedRun:
    (file,) = run_of(level, size).files
    return SortedRun(level, (msgspec.structs.replace(file, row_count=rows),))


def test_level_0_without_a_codec_counts_as_if_it_had_the_upper_levels() -> None:
    large = 10 << 20
    plain, packed = sized(0, 3 * large, 1000), sized(5, large, 1000)
    assert comparable_sizes([plain, packed]) == [large, large]


def test_level_0_never_counts_more_than_it_has() -> None:
    large = 10 << 20
    packed, plain = sized(0, large, 1000), sized(5, 3 * large, 1000)
    assert comparable_sizes([packed, plain]) == [large, 3 * large]


def test_small_files_count_as_they_are_beside_large_ones() -> None:
    small, large = sized(0, 5000, 1000), sized(5, 10 << 20, 10 << 20)
    assert comparable_sizes([small, large]) == [5000, 10 << 20]


def test_where_all_files_are_small_the_one_with_more_rows_is_larger() -> None:
    few, many = comparable_sizes([sized(5, 900, 1), sized(0, 700, 3)])
    assert few < many
    empty = SimpleStats(b"", b"", (0, 1))
    (file,) = sized(0, 900, 1).files
    without_value = SortedRun(0, (msgspec.structs.replace(file, value_stats=empty),))
    assert comparable_sizes([without_value])[0] < few


def test_a_small_compaction_is_one_that_a_commit_can_wait_for() -> None:
    small = [sized(0, 900, 1) for _ in range(5)]
    assert taken(pick_small(small, DEFAULT)) == (5, TOP)
    assert pick_small(small[:4], DEFAULT) is None
    large = runs_of(*[(0, 1)] * 5)
    assert taken(pick(large, DEFAULT)) == (5, TOP)
    assert pick_small(large, DEFAULT) is None


def test_images_that_would_add_up_are_kept_in_one_run_up_to_a_size() -> None:
    options = {"engine": "aggregation", "fields.n.aggregate-function": "sum"}
    schema = make_schema(producer="lookup", **options)
    engine = merge_engine(schema)
    assert engine.single_version
    for upper, whole in ((SINGLE_VERSION_BYTES, True), (SINGLE_VERSION_BYTES + 1, False)):
        runs = [sized(0, 10, 1), sized(5, upper, upper)]
        unit = pick(runs, schema.core, force_level_0=True)
        assert (taken(with_single_version(unit, runs, schema.core, engine)) == (2, TOP)) is whole
