"""Decide what the table's options ask to compact of a bucket, and who does it."""

from pkray.lsm.compaction.pick import CompactionUnit, forces_level_0_up, pick, with_single_version
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels
from pkray.schema.table_schema import TableSchema


def pick_due(
    schema: TableSchema, levels: Levels, *, commits_compact: bool = False
) -> CompactionUnit | None:
    """Pick what the table's options ask to compact of a bucket's committed files, or None.

    Args:
        commits_compact: commits bring level 0 up themselves: it is left to them, and level 1 too,
            so that they never wait for a compaction of it.
    """
    options, runs, expected = schema.core, levels.runs(), 0
    if commits_compact:
        runs, expected = levels.above(1), 1
    unit = pick(runs, options, force_level_0=forces_level_0_up(schema), expected=expected)
    return with_single_version(unit, runs, options, merge_engine(schema))


def compacts_inline(schema: TableSchema) -> bool:
    """Whether commits compact by themselves, and nothing is compacted concurrently.

    Each commit of deletion vectors changes what older files hold; where a key has one image,
    each commit rewrites them.
    """
    if schema.core.deletion_vectors_enabled:
        return True
    return schema.core.lookup_wait and merge_engine(schema).single_version
