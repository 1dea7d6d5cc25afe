"""Levels: which files are a run, and which run is newer."""

from pkray.lsm.levels import Levels
from tests.lsm_samples import file_of


def names(levels: Levels) -> list[list[str]]:
    return [[file.file_name for file in run.files] for run in levels.runs()]


def test_level_0_is_newest_first_then_the_levels() -> None:
    levels = Levels(
        [
            file_of("top", 5, max_sequence_number=9),
            file_of("old", 0, max_sequence_number=11),
            file_of("new", 0, max_sequence_number=20),
            file_of("low", 3, max_sequence_number=10),
        ]
    )
    assert names(levels) == [["new"], ["old"], ["low"], ["top"]]
    assert [run.level for run in levels.runs()] == [0, 0, 3, 5]


def test_equal_largest_numbers_go_by_smallest_number_then_time_then_name() -> None:
    levels = Levels(
        [
            file_of("a", 0, max_sequence_number=5, min_sequence_number=1, creation_time=9),
            file_of("b", 0, max_sequence_number=5, min_sequence_number=2, creation_time=1),
            file_of("c", 0, max_sequence_number=5, min_sequence_number=2, creation_time=2),
            file_of("d", 0, max_sequence_number=5, min_sequence_number=2, creation_time=2),
        ]
    )
    assert names(levels) == [["d"], ["c"], ["b"], ["a"]]


def test_a_level_above_0_is_one_run() -> None:
    levels = Levels([file_of("a", 2, 10), file_of("b", 2, 5)])
    (run,) = levels.runs()
    assert {file.file_name for file in run.files} == {"a", "b"}
    assert run.size == 15


def test_apply_makes_new_levels_and_leaves_the_old() -> None:
    first, second = file_of("a", 0), file_of("b", 0)
    levels = Levels([first])
    following = levels.apply([first], [second])
    assert following.files == (second,)
    assert levels.files == (first,)


def test_an_upgraded_file_keeps_its_name_and_changes_its_level() -> None:
    fresh, upgraded = file_of("a", 0), file_of("a", 4)
    assert Levels([fresh]).apply([fresh], [upgraded]).files == (upgraded,)


def test_files_to_remove_that_are_not_there_are_ignored() -> None:
    levels = Levels([file_of("a", 0)])
    assert levels.apply([file_of("b", 0), file_of("a", 3)], ()) == levels


def test_largest_sequence_and_level() -> None:
    levels = Levels([file_of("a", 0, max_sequence_number=4), file_of("b", 3)])
    assert (levels.max_sequence, levels.max_level) == (4, 3)
    assert (Levels().max_sequence, Levels().max_level) == (-1, -1)


def test_runs_above_a_level() -> None:
    levels = Levels([file_of("a", 0), file_of("b", 3), file_of("c", 5)])
    assert [run.level for run in levels.above(0)] == [3, 5]
    assert [run.level for run in levels.above(3)] == [5]
