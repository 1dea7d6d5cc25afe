"""Pick the runs to compact next: Paimon's universal compaction, as a pure function.

Runs are given newest first. The output goes to the level just below the next run that is left,
or to the highest level if none is left; never to level 0.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pkray.format.data_file import DataFileMeta
from pkray.lsm.levels import SortedRun
from pkray.lsm.merge.merge_function import MergeEngine
from pkray.options import TableOptions
from pkray.schema.table_schema import TableSchema

SMALL_RUN_BYTES = 1 << 20
"""Smaller runs are compared by rows (`comparable_sizes`), and a commit can wait for their merge."""
SMALL_FILE_ROWS = 20
"""A file's footer and statistics are as large as so many rows of a few columns."""
SINGLE_VERSION_BYTES = 32 << 20
"""Up to this size above level 0 a commit rewrites a bucket to keep one version a key;
beyond it a commit would cost what the bucket holds."""


@dataclass(frozen=True)
class CompactionUnit:
    """Merge these runs (newest first) into one of ``output_level``.

    Args:
        purge: also rewrite files that need it only to be rid of rows marked deleted.
    """

    output_level: int
    runs: tuple[SortedRun, ...]
    purge: bool = False


def level_count(options: TableOptions, runs: Sequence[SortedRun]) -> int:
    """Count a bucket's levels: ``num-levels``, by default the compaction trigger and one more."""
    configured = options.num_levels or options.compaction_trigger + 1
    return max(configured, 1 + max((run.level for run in runs), default=0))


def forces_level_0_up(schema: TableSchema) -> bool:
    """Whether every commit must leave level 0 empty."""
    options = schema.core
    return (
        options.changelog_producer == "lookup"
        or options.merge_engine == "first-row"
        or options.deletion_vectors_enabled
    )


def skips_level_0(schema: TableSchema) -> bool:
    """Whether readers of a snapshot see only what was compacted.

    Source: "first-row" and "deletion-vectors.enabled" in Apache Paimon.
    """
    return schema.core.merge_engine == "first-row" or schema.core.deletion_vectors_enabled


def shows_compaction(schema: TableSchema) -> bool:
    """Whether readers see when rows are compacted, not only what was written.

    It makes the changelog; or later rows are merged with what it left: a row that was merged has
    one place by ``sequence.field``, and deletes are forgotten in the highest level.
    """
    options = schema.core
    return (
        options.changelog_producer == "full-compaction"
        or options.merge_engine in ("partial-update", "aggregation")
        or bool(options.sequence_field)
    )


def pick(
    runs: Sequence[SortedRun],
    options: TableOptions,
    *,
    force_level_0: bool = False,
    expected: int = 0,
) -> CompactionUnit | None:
    """Pick the runs to compact now; None where no rule asks for it.

    Args:
        runs: newest first.
        force_level_0: compact level 0 upwards even where no rule asks for it.
        expected: runs about to come, which count towards the trigger.

    Source: ``num-sorted-run.compaction-trigger``, ``compaction.max-size-amplification-percent``,
        ``compaction.size-ratio``, ``num-levels``.
    """
    unit = _pick_universal(runs, options, options.compaction_trigger - expected)
    if unit is None and force_level_0:
        fresh = _count_level_0(runs)
        if fresh:
            unit = _by_size_ratio(runs, options, fresh, triggered=True)
    if unit is None or not _changes_something(unit):
        return None
    if options.deletes_reset and len(unit.runs) == 2 and unit.runs[1].may_have_deletes:
        # What comes after the deletes may stay a run of its own: there would be two again.
        return CompactionUnit(level_count(options, runs) - 1, tuple(runs))
    return unit


def pick_small(runs: Sequence[SortedRun], options: TableOptions) -> CompactionUnit | None:
    """Pick as `pick`, but only what costs so little that a commit can wait for it."""
    unit = pick(runs, options)
    return unit if unit is None or sum(run.size for run in unit.runs) < SMALL_RUN_BYTES else None


def pick_level_0(
    runs: Sequence[SortedRun], options: TableOptions, compacting: Collection[str] = ()
) -> CompactionUnit | None:
    """Pick level 0 with what is not much larger, upwards; None where level 0 is empty.

    Args:
        compacting: names of files that another compaction is merging: they are left out. It must
            have left level 1 free (see `is_free`).
    """
    fresh = _count_level_0(runs)
    if not fresh:
        return None
    unit = _by_size_ratio(runs, options, fresh, triggered=True)
    assert unit is not None
    if any(is_compacting(run, compacting) for run in unit.runs):
        unit = _unit(runs, options, fresh)
    return unit if _changes_something(unit) else None


def is_free(runs: Sequence[SortedRun], compacting: Collection[str]) -> bool:
    """Whether level 0 can go up without the files that another compaction is merging."""
    return not any(run.level <= 1 and is_compacting(run, compacting) for run in runs)


def is_compacting(run: SortedRun, compacting: Collection[str]) -> bool:
    return any(file.file_name in compacting for file in run.files)


def pick_full(
    runs: Sequence[SortedRun], options: TableOptions, marked: Collection[str] = ()
) -> CompactionUnit | None:
    """Pick all runs, into the highest level; None if that is so already.

    Args:
        marked: names of files with rows that are marked deleted, or have expired.
    """
    top = level_count(options, runs) - 1
    purge = any(file.file_name in marked for run in runs for file in run.files)
    if not runs or (len(runs) == 1 and runs[0].level == top and not purge):
        return None
    return CompactionUnit(top, tuple(runs), purge)


def with_single_version(
    unit: CompactionUnit | None,
    runs: Sequence[SortedRun],
    options: TableOptions,
    engine: MergeEngine,
) -> CompactionUnit | None:
    """Pick all runs instead of some, where two rows of a key above level 0 are better avoided.

    Large files whose keys no other run has are left as they are even so. Beyond
    `SINGLE_VERSION_BYTES` a commit would cost what the bucket holds: then runs are as for any
    table, which Paimon's Java core and pkray read right. ``num-levels`` = 2 keeps one run at any
    size.
    """
    above = sum(run.size for run in runs if run.level > 0)
    if engine.single_version and len(runs) > 1 and above <= SINGLE_VERSION_BYTES:
        return pick_full(runs, options)
    return unit


def pick_for_commit(
    runs: Sequence[SortedRun],
    schema: TableSchema,
    engine: MergeEngine,
    compacting: Collection[str] = (),
    *,
    inline: bool,
) -> CompactionUnit | None:
    """Pick what a commit compacts itself; None where that is nothing.

    Args:
        compacting: names of files that are being compacted elsewhere; they are left alone.
        inline: whatever is due. Otherwise only what the commit promises: the rest is compacted
            elsewhere.
    """
    options, forced = schema.core, forces_level_0_up(schema)
    if inline or (options.commit_force_compact and not compacting):
        unit = pick(runs, options, force_level_0=forced)
    elif forced:
        unit = pick_level_0(runs, options, compacting) if options.lookup_wait else None
    else:
        unit = pick_small(runs, options) if shows_compaction(schema) and not compacting else None
    return unit if compacting else with_single_version(unit, runs, options, engine)


def comparable_sizes(runs: Sequence[SortedRun]) -> list[int]:
    """Return the bytes of each run, those of level 0 as if they were written like the runs above
    it.

    Level 0 may have no codec: by its bytes in files it would be merged with twice as large runs.
    Of small files most is no rows, so that one without a codec may be the smaller one with more
    rows: where all are small they count as Paimon's do, a file as much as some rows.
    """
    if all(run.size < SMALL_RUN_BYTES for run in runs):
        return [sum(map(_as_rows, run.files)) for run in runs]
    above = [run for run in runs if run.level > 0 and run.size >= SMALL_RUN_BYTES]
    rows, size = sum(run.row_count for run in above), sum(run.size for run in above)

    def comparable(run: SortedRun) -> int:
        if run.level > 0 or not rows or run.size < SMALL_RUN_BYTES:
            return run.size
        return min(run.size, run.row_count * size // rows)

    return [comparable(run) for run in runs]


def _as_rows(file: DataFileMeta) -> int:
    """Return how many rows a small file is as large as; a column without a value saves one."""
    empty = sum(count == file.row_count for count in file.value_stats.null_counts or ())
    return max(1, SMALL_FILE_ROWS + file.row_count - empty)


def _pick_universal(
    runs: Sequence[SortedRun], options: TableOptions, trigger: int
) -> CompactionUnit | None:
    if len(runs) < trigger or not runs:
        return None
    *fresh, oldest = comparable_sizes(runs)
    if sum(fresh) * 100 > options.max_size_amplification_percent * oldest:
        return CompactionUnit(level_count(options, runs) - 1, tuple(runs))
    unit = _by_size_ratio(runs, options, 1, triggered=False)
    if unit is None and len(runs) > trigger:
        unit = _by_size_ratio(runs, options, len(runs) - trigger + 1, triggered=True)
    return unit


def _by_size_ratio(
    runs: Sequence[SortedRun], options: TableOptions, count: int, *, triggered: bool
) -> CompactionUnit | None:
    """Take the newest ``count`` runs and those after them that are not much larger than all so far.

    What has been triggered also takes what would leave level 0 as its output.
    """
    sizes = comparable_sizes(runs)
    size = sum(sizes[:count])
    while count < len(runs):
        following = sizes[count]
        if size * (100 + options.size_ratio) < following * 100 and not (
            triggered and runs[count].level <= 1
        ):
            break
        size += following
        count += 1
        triggered = True
    return _unit(runs, options, count) if triggered else None


def _unit(runs: Sequence[SortedRun], options: TableOptions, count: int) -> CompactionUnit:
    output = max(0, runs[count].level - 1) if count < len(runs) else 0
    while output == 0 and count < len(runs):
        output = runs[count].level
        count += 1
    if count == len(runs):
        output = level_count(options, runs) - 1
    return CompactionUnit(output, tuple(runs[:count]))


def _count_level_0(runs: Sequence[SortedRun]) -> int:
    return sum(run.level == 0 for run in runs)


def _changes_something(unit: CompactionUnit) -> bool:
    files = [file for run in unit.runs for file in run.files]
    return len(files) > 1 or files[0].level != unit.output_level
