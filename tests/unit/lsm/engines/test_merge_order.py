"""Which tables' content depends on what was merged when."""

import pytest

from pkray.lsm.engines import merge_engine
from pkray.lsm.engines.merge_order import depends_on_merges
from tests.lsm_samples import make_schema

COLUMNS = (("k", "BIGINT NOT NULL"), ("v", "STRING"), ("n", "INT"), ("g", "INT"))
AGGREGATION = {"engine": "aggregation"}
LATE = "merged rows have the largest sequence of them: what a late row does to "


def rules(**options: str) -> list[str]:
    schema = make_schema(COLUMNS, **options)
    return depends_on_merges(schema, merge_engine(schema))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"engine": "first-row"},
        {"engine": "partial-update"},
        {"engine": "partial-update", "fields.g.sequence-group": "v,n"},
        {"engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        AGGREGATION,
        {**AGGREGATION, "fields.n.aggregate-function": "sum"},
        {**AGGREGATION, "aggregation.remove-record-on-delete": "true"},
        {"sequence": "n", "ignore_delete": "true"},
    ],
)
def test_the_order_of_rows_alone_makes_most_tables(options: dict[str, str]) -> None:
    assert rules(**options) == []


def test_forgotten_deletes_of_a_table_with_a_sequence_field_are_named() -> None:
    assert [rule.split(":")[0] for rule in rules(sequence="n")] == [
        "a compaction of all files forgets deletes"
    ]


def test_columns_that_late_rows_change_are_named() -> None:
    functions = {"fields.g.aggregate-function": "max"}
    (rule,) = rules(**AGGREGATION, sequence="n", **functions)
    assert rule.startswith(f"{LATE}v depends")


def test_functions_of_a_sequence_group_that_late_rows_change_are_named() -> None:
    (rule,) = rules(
        engine="partial-update",
        **{"fields.g.sequence-group": "v,n", "fields.v.aggregate-function": "listagg"},
    )
    assert rule.startswith(f"{LATE}v depends")


def test_functions_that_take_back_only_what_they_have_seen_are_named() -> None:
    (rule,) = rules(**AGGREGATION, **{"fields.n.aggregate-function": "product"})
    assert rule.endswith("may be lost to n")


def test_expiring_rows_are_named() -> None:
    options = {"record-level.expire-time": "1 h", "record-level.time-field": "n"}
    assert rules(**options) == [
        "rows older than record-level.expire-time are there until compacted"
    ]
