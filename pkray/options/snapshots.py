"""Options of commits, and of how long snapshots, changelogs and tags are kept."""

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import BOOLEAN, DURATION, HOUR, STRING, choice, integer


@dataclass(frozen=True)
class SnapshotOptions:
    """Options of how commits are tried, and how long what they make is kept."""

    commit_max_retries: int = option(
        "commit.max-retries", integer(0), 10, "Retries of a commit that lost a race."
    )
    commit_timeout: int | None = option(
        "commit.timeout", DURATION, None, "Time after which a commit gives up."
    )
    commit_user_prefix: str | None = option(
        "commit.user-prefix", STRING, None, "Start of generated commit user names."
    )
    snapshot_num_retained_min: int = option(
        "snapshot.num-retained.min", integer(1), 10, "Snapshots kept at least."
    )
    snapshot_num_retained_max: int = option(
        "snapshot.num-retained.max", integer(1), 2**31 - 1, "Snapshots kept at most."
    )
    snapshot_time_retained: int = option(
        "snapshot.time-retained", DURATION, HOUR, "How long snapshots are kept."
    )
    snapshot_expire_limit: int = option(
        "snapshot.expire.limit", integer(1), 50, "Snapshots expired at once."
    )
    snapshot_expire_execution_mode: str = option(
        "snapshot.expire.execution-mode", choice("sync", "async"), "sync", "When files go."
    )
    snapshot_clean_empty_directories: bool = option(
        "snapshot.clean-empty-directories", BOOLEAN, False, "Expiry removes empty folders."
    )
    changelog_num_retained_min: int | None = option(
        "changelog.num-retained.min", integer(1), None, "Changelogs kept at least."
    )
    changelog_num_retained_max: int | None = option(
        "changelog.num-retained.max", integer(1), None, "Changelogs kept at most."
    )
    changelog_time_retained: int | None = option(
        "changelog.time-retained", DURATION, None, "How long changelogs are kept."
    )
    tag_default_time_retained: int | None = option(
        "tag.default-time-retained", DURATION, None, "How long tags are kept."
    )

    @property
    def keeps_changelogs_longer(self) -> bool:
        """Whether changelogs have a retention of their own, beyond that of snapshots in one way."""
        kept = (
            (self.changelog_num_retained_min, self.snapshot_num_retained_min),
            (self.changelog_num_retained_max, self.snapshot_num_retained_max),
            (self.changelog_time_retained, self.snapshot_time_retained),
        )
        return any(own is not None and own > of_snapshots for own, of_snapshots in kept)
