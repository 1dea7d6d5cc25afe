"""Options of compaction: when sorted runs are merged, and what that drops or marks."""

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import BOOLEAN, DURATION, MB, SIZE, STRING, choice, integer


@dataclass(frozen=True)
class CompactionOptions:
    """Options of when sorted runs are merged."""

    write_only: bool = option(
        "write-only",
        BOOLEAN,
        False,
        "No compaction and no expiry by writers.",
        ("write.compaction-skip",),
    )
    compaction_trigger: int = option(
        "num-sorted-run.compaction-trigger", integer(1), 5, "Sorted runs that start a compaction."
    )
    num_sorted_run_stop_trigger: int = option(
        "num-sorted-run.stop-trigger",
        integer(1),
        None,
        "Sorted runs at which writers wait; compaction trigger + 3 if unset.",
    )
    num_levels: int = option(
        "num-levels", integer(2), None, "Levels; compaction trigger + 1 if unset."
    )
    max_size_amplification_percent: int = option(
        "compaction.max-size-amplification-percent",
        integer(0),
        200,
        "Size above the last run, in percent of it, that starts a full compaction.",
    )
    size_ratio: int = option(
        "compaction.size-ratio", integer(0), 1, "Percent a run may be larger and still be taken."
    )
    compaction_optimization_interval: int | None = option(
        "compaction.optimization-interval", DURATION, None, "Time between full compactions."
    )
    full_compaction_delta_commits: int | None = option(
        "full-compaction.delta-commits", integer(1), None, "Commits between full compactions."
    )
    commit_force_compact: bool = option(
        "commit.force-compact", BOOLEAN, False, "A commit waits for the compaction that is due."
    )
    record_level_expire_time: int | None = option(
        "record-level.expire-time", DURATION, None, "Age at which compaction drops a row."
    )
    record_level_time_field: str | None = option(
        "record-level.time-field", STRING, None, "Column that holds a row's time."
    )
    record_level_time_field_type: str | None = option(
        "record-level.time-field-type",
        choice("seconds-int", "seconds-long", "millis-long"),
        None,
        "What the numbers of that column are.",
    )
    deletion_vectors_enabled: bool = option(
        "deletion-vectors.enabled", BOOLEAN, False, "Mark deleted rows instead of merging."
    )
    deletion_vector_index_file_target_size: int = option(
        "deletion-vector.index-file.target-size", SIZE, 2 * MB, "Size of a vector file."
    )

    def __post_init__(self) -> None:
        stop = self.num_sorted_run_stop_trigger or self.compaction_trigger + 3
        object.__setattr__(self, "num_sorted_run_stop_trigger", max(stop, self.compaction_trigger))
        object.__setattr__(self, "num_levels", self.num_levels or self.compaction_trigger + 1)
