"""Every metric there is.

Few labels: ``table``, ``query``, ``operator``, ``worker``, and words from short lists. A partition,
a key or a path is never one. What has ``bucket`` is called ``pkray_bucket_…``, so that nothing
counts twice in the sum of a table, and is shown to those alone who ask for it.
"""

from pkray.metrics.metric import LATENCIES, Kind, Metric

_TABLE, _QUERY = ("table",), ("query",)


def _fact(name: str, unit: str, help: str, labels: tuple[str, ...], kind: Kind = "gauge") -> Metric:
    """Describe what is read from the warehouse."""
    return Metric(name, kind, unit, help, labels, is_fact=True)


def _gauge(name: str, unit: str, help: str, labels: tuple[str, ...] = ()) -> Metric:
    """Describe what a process has now."""
    return Metric(name, "gauge", unit, help, labels)


def _counted(name: str, unit: str, help: str, labels: tuple[str, ...]) -> Metric:
    """Describe what a process counts."""
    return Metric(name, "counter", unit, help, labels)


def _times(name: str, help: str, labels: tuple[str, ...]) -> Metric:
    """Describe seconds that a process measures."""
    return Metric(name, "histogram", "seconds", help, labels, bounds=LATENCIES)


# Facts of tables, of the newest snapshot.
TABLE_ROWS = _fact("pkray_table_rows", "rows", "Rows in the files, before merging.", _TABLE)
TABLE_BYTES = _fact("pkray_table_bytes", "bytes", "Bytes of the data files.", _TABLE)
TABLE_FILES = _fact("pkray_table_files", "files", "Data files.", _TABLE)
TABLE_LEVEL0_FILES = _fact(
    "pkray_table_level0_files",
    "files",
    "Data files of level 0 in the bucket that has most.",
    _TABLE,
)
TABLE_COMPACTION_BACKLOG_BYTES = _fact(
    "pkray_table_compaction_backlog_bytes",
    "bytes",
    "Bytes in level 0, which wait to be compacted.",
    _TABLE,
)
TABLE_SNAPSHOT_AGE_SECONDS = _fact(
    "pkray_table_snapshot_age_seconds",
    "seconds",
    "Time since the newest snapshot was committed.",
    _TABLE,
)
TABLE_CONSUMER_LAG_SNAPSHOTS = _fact(
    "pkray_table_consumer_lag_snapshots",
    "snapshots",
    "Snapshots that a consumer has still to read, and that do not expire until then.",
    ("table", "consumer"),
)

_BUCKET = ("table", "bucket")
BUCKET_LEVEL_FILES = _fact(
    "pkray_bucket_level_files",
    "files",
    "Data files of a level in the buckets of a number, in all partitions.",
    (*_BUCKET, "level"),
)
BUCKET_COMPACTION_BACKLOG_BYTES = _fact(
    "pkray_bucket_compaction_backlog_bytes",
    "bytes",
    "Bytes in level 0 of the buckets of a number, which wait to be compacted.",
    _BUCKET,
)

# Facts of queries.
QUERY_RUNNING = _fact("pkray_query_running", "", "1 while a process runs the query.", _QUERY)
QUERY_FAILED = _fact("pkray_query_failed", "", "1 where the query has stopped on an error.", _QUERY)
QUERY_FRESHNESS_SECONDS = _fact(
    "pkray_query_freshness_seconds",
    "seconds",
    "How far the result is behind the source that it is furthest behind.",
    _QUERY,
)
QUERY_LAG_SNAPSHOTS = _fact(
    "pkray_query_lag_snapshots",
    "snapshots",
    "Snapshots of a source that are not in the result yet.",
    ("query", "table"),
)
QUERY_EPOCHS_TOTAL = _fact(
    "pkray_query_epochs_total", "epochs", "Epochs that have ended.", _QUERY, "counter"
)
QUERY_LATE_ROWS_TOTAL = _fact(
    "pkray_query_late_rows_total",
    "rows",
    "Rows that came after their window was closed, and were left out.",
    _QUERY,
    "counter",
)
_OPERATOR = ("query", "operator")
QUERY_STATE_BYTES = _fact(
    "pkray_query_state_bytes", "bytes", "State of an operator, in memory and in files.", _OPERATOR
)
QUERY_STATE_ROWS = _fact(
    "pkray_query_state_rows", "rows", "Rows that an operator remembers.", _OPERATOR
)
QUERY_OPERATOR_BUSY_RATIO = _fact(
    "pkray_query_operator_busy_ratio",
    "ratio",
    "Share of the last seconds that an operator worked, as the mean of its workers.",
    _OPERATOR,
)

# Kept by each process.
QUERY_EPOCH_SECONDS = _times("pkray_query_epoch_seconds", "Time that an epoch takes.", _QUERY)
TABLE_COMMIT_SECONDS = _times(
    "pkray_table_commit_seconds",
    "Time that the coordinator takes for a commit, its retries included.",
    _TABLE,
)
TABLE_COMMIT_FAILURES_TOTAL = _counted(
    "pkray_table_commit_failures_total", "commits", "Commits that failed.", _TABLE
)
TABLE_COMPACTIONS_TOTAL = _counted(
    "pkray_table_compactions_total",
    "compactions",
    "Compactions of buckets by what became of them: committed, dropped or failed.",
    ("table", "outcome"),
)
TABLE_COMPACTIONS_RUNNING = _gauge(
    "pkray_table_compactions_running", "compactions", "Compactions that run.", _TABLE
)
TABLE_WRITE_STALL_SECONDS_TOTAL = _counted(
    "pkray_table_write_stall_seconds_total",
    "seconds",
    "Time that commits have waited for compactions.",
    _TABLE,
)
TABLE_WRITERS_WAITING = _gauge(
    "pkray_table_writers_waiting",
    "buckets",
    "Buckets whose compaction a commit waits for now.",
    _TABLE,
)
LOOKUP_SECONDS = _times(
    "pkray_lookup_seconds", "Time that an owner takes for the keys of one call.", _TABLE
)
LOOKUP_KEYS_TOTAL = _counted(
    "pkray_lookup_keys_total", "keys", "Keys that owners were asked for.", _TABLE
)
LOOKUP_MISSES_TOTAL = _counted(
    "pkray_lookup_misses_total",
    "keys",
    "Keys that the one bucket in which they can be does not have.",
    _TABLE,
)
BUCKET_LOOKUP_KEYS_TOTAL = _counted(
    "pkray_bucket_lookup_keys_total", "keys", "Keys that a bucket was asked for.", _BUCKET
)
BUCKET_LOOKUP_MISSES_TOTAL = _counted(
    "pkray_bucket_lookup_misses_total",
    "keys",
    "Keys that a bucket was asked for, and does not have.",
    _BUCKET,
)
STORE_REQUEST_SECONDS = _times(
    "pkray_store_request_seconds",
    "Time until an object store has answered, repetitions included.",
    ("operation",),
)
STORE_REQUESTS_TOTAL = _counted(
    "pkray_store_requests_total",
    "requests",
    "Requests to an object store by their outcome: ok, absent, repeated or failed.",
    ("operation", "outcome"),
)
WORKER_MEMORY_BYTES = _gauge(
    "pkray_worker_memory_bytes",
    "bytes",
    "Memory of a process by its use; process is all that it takes.",
    ("use",),
)
WORKER_START_TIME_SECONDS = _gauge(
    "pkray_worker_start_time_seconds", "seconds", "When a process began, in seconds since 1970."
)

WORKER_MACHINE_MEMORY_RATIO = _gauge(
    "pkray_worker_machine_memory_ratio",
    "ratio",
    "Share of the memory of a process's machine, or of its container, that is in use.",
)

METRICS = {each.name: each for each in list(globals().values()) if isinstance(each, Metric)}
"""All of them, by name."""
