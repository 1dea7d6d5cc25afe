"""Every metric there is.

Few labels: ``table``, ``query``, ``operator``, ``worker``, and words from short lists. A partition,
a key or a path is never one. What has ``bucket`` is called ``pkray_bucket_…``, so that nothing
counts twice in the sum of a table, and is shown to those alone who ask for it.
"""

from pkray.metrics.metric import LATENCIES, Metric

_TABLE, _QUERY = ("table",), ("query",)

# Facts of tables, of the newest snapshot.
TABLE_ROWS = Metric(
    "pkray_table_rows", "gauge", "rows", "Rows in the files, before merging.", _TABLE, True
)
TABLE_BYTES = Metric(
    "pkray_table_bytes", "gauge", "bytes", "Bytes of the data files.", _TABLE, True
)
TABLE_FILES = Metric("pkray_table_files", "gauge", "files", "Data files.", _TABLE, True)
TABLE_LEVEL0_FILES = Metric(
    "pkray_table_level0_files",
    "gauge",
    "files",
    "Data files of level 0 in the bucket that has most.",
    _TABLE,
    True,
)
TABLE_COMPACTION_BACKLOG_BYTES = Metric(
    "pkray_table_compaction_backlog_bytes",
    "gauge",
    "bytes",
    "Bytes in level 0, which wait to be compacted.",
    _TABLE,
    True,
)
TABLE_SNAPSHOT_AGE_SECONDS = Metric(
    "pkray_table_snapshot_age_seconds",
    "gauge",
    "seconds",
    "Time since the newest snapshot was committed.",
    _TABLE,
    True,
)
TABLE_CONSUMER_LAG_SNAPSHOTS = Metric(
    "pkray_table_consumer_lag_snapshots",
    "gauge",
    "snapshots",
    "Snapshots that a consumer has still to read, and that do not expire until then.",
    ("table", "consumer"),
    True,
)

_BUCKET = ("table", "bucket")
BUCKET_LEVEL_FILES = Metric(
    "pkray_bucket_level_files",
    "gauge",
    "files",
    "Data files of a level in the buckets of a number, in all partitions.",
    (*_BUCKET, "level"),
    True,
)
BUCKET_COMPACTION_BACKLOG_BYTES = Metric(
    "pkray_bucket_compaction_backlog_bytes",
    "gauge",
    "bytes",
    "Bytes in level 0 of the buckets of a number, which wait to be compacted.",
    _BUCKET,
    True,
)

# Facts of queries.
QUERY_RUNNING = Metric(
    "pkray_query_running", "gauge", "", "1 while a process runs the query.", _QUERY, True
)
QUERY_FAILED = Metric(
    "pkray_query_failed", "gauge", "", "1 where the query has stopped on an error.", _QUERY, True
)
QUERY_FRESHNESS_SECONDS = Metric(
    "pkray_query_freshness_seconds",
    "gauge",
    "seconds",
    "How far the result is behind the source that it is furthest behind.",
    _QUERY,
    True,
)
QUERY_LAG_SNAPSHOTS = Metric(
    "pkray_query_lag_snapshots",
    "gauge",
    "snapshots",
    "Snapshots of a source that are not in the result yet.",
    ("query", "table"),
    True,
)
QUERY_EPOCHS_TOTAL = Metric(
    "pkray_query_epochs_total", "counter", "epochs", "Epochs that have ended.", _QUERY, True
)
QUERY_LATE_ROWS_TOTAL = Metric(
    "pkray_query_late_rows_total",
    "counter",
    "rows",
    "Rows that came after their window was closed, and were left out.",
    _QUERY,
    True,
)
_OPERATOR = ("query", "operator")
QUERY_STATE_BYTES = Metric(
    "pkray_query_state_bytes",
    "gauge",
    "bytes",
    "State of an operator, in memory and in files.",
    _OPERATOR,
    True,
)
QUERY_STATE_ROWS = Metric(
    "pkray_query_state_rows", "gauge", "rows", "Rows that an operator remembers.", _OPERATOR, True
)
QUERY_OPERATOR_BUSY_RATIO = Metric(
    "pkray_query_operator_busy_ratio",
    "gauge",
    "ratio",
    "Share of the last seconds that an operator worked, as the mean of its workers.",
    _OPERATOR,
    True,
)

# Kept by each process.
QUERY_EPOCH_SECONDS = Metric(
    "pkray_query_epoch_seconds",
    "histogram",
    "seconds",
    "Time that an epoch takes.",
    _QUERY,
    bounds=LATENCIES,
)
TABLE_COMMIT_SECONDS = Metric(
    "pkray_table_commit_seconds",
    "histogram",
    "seconds",
    "Time that the coordinator takes for a commit, its retries included.",
    _TABLE,
    bounds=LATENCIES,
)
TABLE_COMMIT_FAILURES_TOTAL = Metric(
    "pkray_table_commit_failures_total", "counter", "commits", "Commits that failed.", _TABLE
)
TABLE_COMPACTIONS_TOTAL = Metric(
    "pkray_table_compactions_total",
    "counter",
    "compactions",
    "Compactions of buckets by what became of them: committed, dropped or failed.",
    ("table", "outcome"),
)
TABLE_COMPACTIONS_RUNNING = Metric(
    "pkray_table_compactions_running", "gauge", "compactions", "Compactions that run.", _TABLE
)
TABLE_WRITE_STALL_SECONDS_TOTAL = Metric(
    "pkray_table_write_stall_seconds_total",
    "counter",
    "seconds",
    "Time that commits have waited for compactions.",
    _TABLE,
)
TABLE_WRITERS_WAITING = Metric(
    "pkray_table_writers_waiting",
    "gauge",
    "buckets",
    "Buckets whose compaction a commit waits for now.",
    _TABLE,
)
LOOKUP_SECONDS = Metric(
    "pkray_lookup_seconds",
    "histogram",
    "seconds",
    "Time that an owner takes for the keys of one call.",
    _TABLE,
    bounds=LATENCIES,
)
LOOKUP_KEYS_TOTAL = Metric(
    "pkray_lookup_keys_total", "counter", "keys", "Keys that owners were asked for.", _TABLE
)
LOOKUP_MISSES_TOTAL = Metric(
    "pkray_lookup_misses_total",
    "counter",
    "keys",
    "Keys that the one bucket in which they can be does not have.",
    _TABLE,
)
BUCKET_LOOKUP_KEYS_TOTAL = Metric(
    "pkray_bucket_lookup_keys_total",
    "counter",
    "keys",
    "Keys that a bucket was asked for.",
    _BUCKET,
)
BUCKET_LOOKUP_MISSES_TOTAL = Metric(
    "pkray_bucket_lookup_misses_total",
    "counter",
    "keys",
    "Keys that a bucket was asked for, and does not have.",
    _BUCKET,
)
STORE_REQUEST_SECONDS = Metric(
    "pkray_store_request_seconds",
    "histogram",
    "seconds",
    "Time until an object store has answered, repetitions included.",
    ("operation",),
    bounds=LATENCIES,
)
STORE_REQUESTS_TOTAL = Metric(
    "pkray_store_requests_total",
    "counter",
    "requests",
    "Requests to an object store by their outcome: ok, absent, repeated or failed.",
    ("operation", "outcome"),
)
WORKER_MEMORY_BYTES = Metric(
    "pkray_worker_memory_bytes",
    "gauge",
    "bytes",
    "Memory of a process by its use; process is all that it takes.",
    ("use",),
)
WORKER_START_TIME_SECONDS = Metric(
    "pkray_worker_start_time_seconds",
    "gauge",
    "seconds",
    "When a process began, in seconds since 1970.",
)

WORKER_MACHINE_MEMORY_RATIO = Metric(
    "pkray_worker_machine_memory_ratio",
    "gauge",
    "ratio",
    "Share of the memory of a process's machine, or of its container, that is in use.",
)

METRICS = {each.name: each for each in list(globals().values()) if isinstance(each, Metric)}
"""All of them, by name."""
