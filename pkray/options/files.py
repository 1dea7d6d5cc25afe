"""Options of files: formats, codecs, sizes and names of data files and manifests."""

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import (
    BY_LEVEL,
    CODEC,
    FILE_PREFIX,
    MB,
    POSITIVE_SIZE,
    SIZE,
    STRING,
    choice,
    integer,
)


@dataclass(frozen=True)
class FileOptions:
    """Options of how data files and manifests are written."""

    file_format: str = option(
        "file.format",
        choice("parquet", "orc", "avro"),
        "parquet",
        "Format of data files.",
        only=("parquet",),
    )
    file_compression: str = option(
        "file.compression",
        CODEC,
        "zstd",
        "Codec of data files; if unset, those of level 0 have none, as they are compacted soon.",
    )
    file_compression_zstd_level: int = option(
        "file.compression.zstd-level", integer(1), 1, "zstd level of data files."
    )
    file_compression_per_level: tuple[tuple[int, str], ...] = option(
        "file.compression.per.level", BY_LEVEL, (), "Codec by level, such as 0:lz4,5:zstd."
    )
    parquet_writer_version: str = option(
        "parquet.writer.version",
        choice("v1", "v2", "parquet_1_0", "parquet_2_0"),
        "v1",
        "Encodings of data files; v2 is faster for integers, but Paimon 0.9 cannot read it.",
    )
    file_block_size: int | None = option(
        "file.block-size",
        SIZE,
        None,
        "Size of a Parquet row group in memory; if unset 32 MB, and at most 131072 rows.",
    )
    target_file_size: int = option(
        "target-file-size", POSITIVE_SIZE, 128 * MB, "Size at which a data file is cut."
    )
    data_file_prefix: str = option(
        "data-file.prefix", FILE_PREFIX, "data-", "Start of data file names."
    )
    metadata_stats_mode: str = option(
        "metadata.stats-mode",
        STRING,
        "truncate(16)",
        "Statistics of data files: none, counts, truncate(n) or full.",
    )
    manifest_format: str = option("manifest.format", choice("avro"), "avro", "Format of manifests.")
    manifest_compression: str = option(
        "manifest.compression",
        choice("zstd", "snappy", "none", "default"),
        "zstd",
        "Codec of manifests.",
    )
    manifest_target_file_size: int = option(
        "manifest.target-file-size", POSITIVE_SIZE, 8 * MB, "Size of a merged manifest."
    )
    manifest_merge_min_count: int = option(
        "manifest.merge-min-count", integer(1), 30, "Manifests that start a merge."
    )
    manifest_full_compaction_threshold_size: int = option(
        "manifest.full-compaction-threshold-size",
        SIZE,
        16 * MB,
        "Size of changed manifests that starts a full rewrite.",
    )
