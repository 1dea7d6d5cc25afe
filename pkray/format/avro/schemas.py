"""The Avro schemas of Paimon's manifests (record names and defaults as Paimon generates them).

``_VALUE_STATS_COLS`` is always there, even as null: pypaimon 2.1 reads it unconditionally.
"""

from typing import Any

import fastavro

_RECORD = "org.apache.paimon.avro.generated.record"

Field = dict[str, Any]


def _field(name: str, kind: Any) -> Field:
    return {"name": name, "type": kind}


def _optional(name: str, kind: Any) -> Field:
    return {"name": name, "type": ["null", kind], "default": None}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _record(name: str, fields: list[Field]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _stats(name: str) -> dict[str, Any]:
    return _record(
        name,
        [
            _field("_MIN_VALUES", "bytes"),
            _field("_MAX_VALUES", "bytes"),
            _optional("_NULL_COUNTS", _array(["null", "long"])),
        ],
    )


_DATA_FILE = _record(
    f"{_RECORD}__FILE",
    [
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_ROW_COUNT", "long"),
        _field("_MIN_KEY", "bytes"),
        _field("_MAX_KEY", "bytes"),
        _field("_KEY_STATS", _stats(f"{_RECORD}__FILE__KEY_STATS")),
        _field("_VALUE_STATS", _stats(f"{_RECORD}__FILE__VALUE_STATS")),
        _field("_MIN_SEQUENCE_NUMBER", "long"),
        _field("_MAX_SEQUENCE_NUMBER", "long"),
        _field("_SCHEMA_ID", "long"),
        _field("_LEVEL", "int"),
        _field("_EXTRA_FILES", _array("string")),
        _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        _optional("_DELETE_ROW_COUNT", "long"),
        _optional("_EMBEDDED_FILE_INDEX", "bytes"),
        _optional("_FILE_SOURCE", "int"),
        _optional("_VALUE_STATS_COLS", _array("string")),
        _optional("_EXTERNAL_PATH", "string"),
        _optional("_FIRST_ROW_ID", "long"),
        _optional("_WRITE_COLS", _array("string")),
    ],
)

MANIFEST_ENTRY = fastavro.parse_schema(
    _record(
        _RECORD,
        [
            _field("_VERSION", "int"),
            _field("_KIND", "int"),
            _field("_PARTITION", "bytes"),
            _field("_BUCKET", "int"),
            _field("_TOTAL_BUCKETS", "int"),
            _field("_FILE", _DATA_FILE),
        ],
    )
)

MANIFEST_LIST = fastavro.parse_schema(
    _record(
        _RECORD,
        [
            _field("_VERSION", "int"),
            _field("_FILE_NAME", "string"),
            _field("_FILE_SIZE", "long"),
            _field("_NUM_ADDED_FILES", "long"),
            _field("_NUM_DELETED_FILES", "long"),
            _field("_PARTITION_STATS", _stats(f"{_RECORD}__PARTITION_STATS")),
            _field("_SCHEMA_ID", "long"),
            _optional("_MIN_BUCKET", "int"),
            _optional("_MAX_BUCKET", "int"),
            _optional("_MIN_LEVEL", "int"),
            _optional("_MAX_LEVEL", "int"),
            _optional("_MIN_ROW_ID", "long"),
            _optional("_MAX_ROW_ID", "long"),
        ],
    )
)

_DELETION_VECTOR = _record(
    f"{_RECORD}__DELETIONS_VECTORS_RANGES",
    [
        _field("f0", "string"),
        _field("f1", "int"),
        _field("f2", "int"),
        _optional("_CARDINALITY", "long"),
    ],
)

INDEX_MANIFEST_ENTRY = fastavro.parse_schema(
    _record(
        _RECORD,
        [
            _field("_VERSION", "int"),
            _field("_KIND", "int"),
            _field("_PARTITION", "bytes"),
            _field("_BUCKET", "int"),
            _field("_INDEX_TYPE", "string"),
            _field("_FILE_NAME", "string"),
            _field("_FILE_SIZE", "long"),
            _field("_ROW_COUNT", "long"),
            _optional("_DELETIONS_VECTORS_RANGES", _array(["null", _DELETION_VECTOR])),
            _optional("_EXTERNAL_PATH", "string"),
        ],
    )
)
