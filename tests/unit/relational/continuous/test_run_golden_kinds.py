"""Recorded queries, run an event an epoch: the operators give the recorded kinds."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pkray
from pkray.api.inputs import Changelog
from pkray.relational import changelog
from pkray.schema.types import DataType
from tests.golden.case import Case, _value
from tests.unit.relational.continuous.histories import Continuous, Row, _plain, kinds_of

DATA = Path(__file__).parents[3] / "golden" / "data"
NAMES = [
    "agg_double_nan_negzero",
    "agg_filter_clause",
    "agg_global_empty",
    "agg_insert_same_result_suppressed",
    "agg_null_key",
    "agg_null_values",
    "agg_retract_all_functions",
    "agg_types_decimal_double_ts",
    "agg_update_changes_group_key",
    "dedup_proctime_keep_first",
    "dedup_rowtime_keep_last",
    "limit_only",
    "normalize_filter_pushed",
    "normalize_upsert_source",
    "s003_groupby_count",
    "s003_retract_encoding",
    "s003_upsert_encoding",
    "s003_upsert_encoding_delete",
    "select_distinct",
    "set_except",
    "set_intersect",
    "set_union_all",
    "sort_limit",
    "topn_append_with_rownum",
    "topn_global",
    "topn_nulls_last_explicit",
    "topn_rownum_eq_3",
    "topn_updates_displace",
    "ttl_dedup_keep_first",
    "ttl_group_by",
]


@pytest.mark.parametrize("name", NAMES)
def test_an_event_an_epoch_gives_the_recorded_changes(name: str, tmp_path: Path) -> None:
    case = Case.read(DATA / f"{name}.json")
    with pkray.connect(tmp_path) as catalog:
        sources = {each: _opened(catalog, case, each) for each in case.said["tables"]}
        for statement in case.said.get("setup", ()):
            catalog.sql(statement, dialect="flink")
        ttl = case.said.get("config", {}).get("table.exec.state.ttl", "0 ms")
        before = case.said.get("sink") != "upsert"
        relation = catalog.sql(case.sql, dialect="flink")
        run = Continuous(relation, sources, ttl=ttl, before=before)
        given: list[tuple[str, Row]] = []
        time = 0
        for table, *event in case.said["events"]:
            time += case.said.get("step_ms") or 0
            if table == "sleep":
                time += event[0]
                continue
            given += kinds_of(run.push(table, [_row(case, table, *event)], time))
    expected = [(kind, _values(case, row)) for kind, row in case.said["changelog"]]
    if case.said.get("order") == "multiset":
        assert Counter(given) == Counter(expected)
    else:
        assert given == expected


def _opened(catalog: pkray.Catalog, case: Case, name: str) -> Changelog:
    table = case.said["tables"][name]
    source = changelog(
        dict(table["columns"]),
        primary_key=table.get("primary_key"),
        mode=table.get("mode") or "all",
        watermark=table.get("watermark"),
    )
    computed = dict(table.get("computed", ()))
    catalog.create_view(
        name, source.with_columns(**computed) if computed else source, temporary=True
    )
    return source


def _row(case: Case, table: str, kind: str, values: list[Any]) -> dict[str, Any]:
    columns = case.said["tables"][table]["columns"]
    typed = {
        name: _value(value, DataType.parse(declared))
        for (name, declared), value in zip(columns, values, strict=True)
    }
    return {**typed, "_row_kind": kind}


def _values(case: Case, row: list[Any]) -> Row:
    kinds = [DataType.parse(kind.replace(" *ROWTIME*", "")) for _, kind in case.said["columns"]]
    return tuple(_plain(_value(value, kind)) for value, kind in zip(row, kinds, strict=True))
