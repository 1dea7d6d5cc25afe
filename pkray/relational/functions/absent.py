"""Functions of Spark's and Flink's that there are none of here, and what to write."""

import re

_REASONS = (
    (
        r"(hll|theta|kll|tuple)_\w+|count_min_sketch|approx_top_k\w*|bitmap_\w+",
        "sketches are no values here: approx_count_distinct, percentile and mode are exact",
    ),
    (r"time_bucket", "write date_trunc(unit, ts), or a window: GROUP BY window(ts, '15 minutes')"),
    (r"sentences", "it knows languages: split text by split(text, pattern)"),
    (
        r"(try_)?validate_utf8|(is|make)_valid_utf8",
        "text is valid UTF-8 here: bytes that are none are refused where they become text",
    ),
    (
        r"current_watermark",
        "how far it is when a row comes differs when rows are replayed: late ones are kept beside "
        "the result, in its table $late",
    ),
    (r"st_\w+", "there is no type of places on Earth: keep them as BYTES, or use Spark"),
    (r"xpath\w*|(from|to|schema_of)_xml", "there is no XML: write JSON, or register a function"),
    (
        r"(try_)?parse_json|(try_)?variant_\w+|is_\w*variant\w*|schema_of_variant\w*|"
        r"to_variant_object",
        "there is no type VARIANT: keep JSON as STRING, read it by get_json_object or from_json",
    ),
    (
        r"(from|to|schema_of)_(avro|protobuf)",
        "there are no schemas of Avro and Protobuf: decode bytes in a registered function",
    ),
    (r"(try_)?aes_\w+", "keys would stand in queries and plans: encrypt in a registered function"),
    (r"java_method|(try_)?reflect", "queries call no Java: register a function"),
    (r"collat\w+", "text is compared by its bytes: compare lower(x), or a key that you make of it"),
    (r"input_file_\w+|spark_partition_id", "rows are of tables, not of files and partitions"),
    (r"vector_\w+", "there is no arithmetic of vectors: write aggregate and zip_with"),
    (r"python_worker_logs", "it lists logs of Spark's own workers"),
    (r"measure", "there are no metric views: write the aggregate"),
    (r"current_path", "functions have one name: there is no path along which they are looked up"),
    (
        r"json_(array|object)agg",
        "write '[' || LISTAGG(JSON_STRING(x)) || ']', or to_json of an ARRAY or a MAP",
    ),
    (r"object_(of|update)", "there are no objects of Java classes: write ROW(…)"),
    (r"ml_\w+", "there is no type MODEL: call it in a registered function"),
    (r"overlaps", "compare the ends: start_1 <= end_2 AND start_2 <= end_1"),
    (r"group_id", "equal grouping sets give equal rows: write each once"),
    (r"sql_keywords", "there is no table of words: quote names by backticks"),
)
_PATTERNS = tuple((re.compile(pattern), reason) for pattern, reason in _REASONS)


def reason(name: str) -> str | None:
    """Say why there is no function of a name; None where nothing is known of it."""
    for pattern, why in _PATTERNS:
        if pattern.fullmatch(name.lower()):
            return why
    return None
