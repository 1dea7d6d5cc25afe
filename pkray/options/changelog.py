"""Options of the changelog: where changes come from, and the files they are in."""

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import BOOLEAN, CODEC, DURATION, FILE_PREFIX, NAMES, STRING, choice


@dataclass(frozen=True)
class ChangelogOptions:
    """Options of which changes are written, and how."""

    changelog_producer: str = option(
        "changelog-producer",
        choice("none", "input", "full-compaction", "lookup"),
        "none",
        "Where changelog files come from.",
    )
    row_deduplicate: bool = option(
        "changelog-producer.row-deduplicate", BOOLEAN, False, "No -U, +U where nothing changed."
    )
    row_deduplicate_ignore_fields: tuple[str, ...] = option(
        "changelog-producer.row-deduplicate-ignore-fields",
        NAMES,
        (),
        "Columns whose change alone is no change.",
    )
    changelog_compaction_interval: int | None = option(
        "changelog-producer.compaction-interval", DURATION, None, "Time between full compactions."
    )
    lookup_wait: bool = option(
        "lookup-wait",
        BOOLEAN,
        True,
        "Commit waits for the lookup changelog.",
        ("changelog-producer.lookup-wait",),
    )
    changelog_file_prefix: str = option(
        "changelog-file.prefix", FILE_PREFIX, "changelog-", "Start of changelog file names."
    )
    changelog_file_format: str = option(
        "changelog-file.format",
        choice("parquet", "orc", "avro"),
        "parquet",
        "Format of changelog files.",
        only=("parquet",),
    )
    changelog_file_compression: str | None = option(
        "changelog-file.compression", CODEC, None, "Codec of changelog files."
    )
    changelog_file_stats_mode: str | None = option(
        "changelog-file.stats-mode",
        STRING,
        None,
        "Statistics of changelog files; those of data files if unset.",
    )
