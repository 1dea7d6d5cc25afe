"""Paimon's options that pkray need not, or does not, honour."""

from __future__ import annotations

# Paimon options that tune other engines, or that change nothing in a pkray table.
WITHOUT_EFFECT = frozenset(
    {
        "async-file-write",
        "auto-create",
        "cache-page-size",
        "commit.callbacks",
        "compaction.max.file-num",
        "compaction.min.file-num",
        "delete-file.thread-num",
        "end-input.check-partition-expire",
        "file-index.in-manifest-threshold",
        "file-index.read.enabled",
        "file-reader-async-threshold",
        "local-merge-buffer-size",
        "local-sort.max-num-file-handles",
        "lookup.cache-spill-compression",
        "lookup.cache.high-priority-pool-ratio",
        "lookup.hash-load-factor",
        "lookup.local-file-type",
        "manifest.delete-file-drop-stats",
        "metadata.stats-dense-store",
        "metastore.partitioned-table",
        "page-size",
        "parquet.enable.dictionary",
        "partition.end-input-to-done",
        "partition.mark-done-action",
        "path",
        "scan.manifest.parallelism",
        "scan.max-splits-per-task",
        "scan.plan-sort-partition",
        "sink.watermark-time-zone",
        "snapshot.watermark-idle-timeout",
        "sort-compaction.local-sample.magnification",
        "sort-compaction.range-strategy",
        "sort-engine",
        "streaming.read.snapshot.delay",
        "tag.period-formatter",
        "write-buffer-for-append",
        "write-manifest-cache",
        "write-max-writers-to-spill",
        "write.batch-size",
        "zorder.var-length-contribution",
    }
)

_AS_ARGUMENT = "give it as an argument of create_table"
_ANOTHER_KIND = "pkray has primary-key tables alone"

# Paimon options that pkray would have to honour and does not: the value that asks for nothing
# (empty: there is none), and why or what instead.
NOT_IMPLEMENTED = {
    "branch": ("main", "open the branch itself"),
    "primary-key": ("", _AS_ARGUMENT),
    "partition": ("", _AS_ARGUMENT),
    "type": ("table", _ANOTHER_KIND),
    "object-location": ("", _ANOTHER_KIND),
    "data-file.thin-mode": (
        "false",
        "data files always carry their key columns, which Paimon 0.9 needs",
    ),
    "data-file.external-paths": ("", "data files lie in the table's own folder"),
    "data-file.external-paths.strategy": ("none", "data files lie in the table's own folder"),
    "data-file.external-paths.specific-fs": ("", "data files lie in the table's own folder"),
    "data-file.path-directory": ("", "data files lie in the table's own folder"),
    "file.format.per.level": ("", "all data files are Parquet"),
    "file.suffix.include.compression": ("false", "data file names end in .parquet"),
    "file-index.bloom-filter.columns": ("", "data files get no index"),
    "file-index.bitmap.columns": ("", "data files get no index"),
    "file-index.bsi.columns": ("", "data files get no index"),
    "scan.fallback-branch": ("", "read the branch itself"),
    "scan.file-creation-time-millis": ("", "use scan.timestamp-millis"),
    "incremental-to-auto-tag": ("", "use incremental-between"),
    "streaming-read-mode": ("file", "there is no log store"),
    "delete.force-produce-changelog": ("false", "choose a changelog-producer"),
    "metastore.tag-to-partition": ("", "there is no metastore"),
    "metastore.tag-to-partition.preview": ("none", "there is no metastore"),
    "tag.automatic-creation": ("none", "create tags by call"),
    "tag.automatic-completion": ("false", "create tags by call"),
    "tag.batch.customized-name": ("", "create tags by call"),
    "tag.creation-delay": ("", "create tags by call"),
    "tag.creation-period": ("", "create tags by call"),
    "tag.num-retained-max": ("", "use tag.default-time-retained"),
    "tag.callbacks": ("", "there are no callbacks"),
    "partition.mark-done-action.custom.class": ("", "there are no callbacks"),
}
