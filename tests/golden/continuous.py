"""Recorded continuous queries: one epoch an event."""

from collections import Counter
from typing import Any

import pyarrow as pa

import pkray
from pkray.errors import EvaluationError, QueryError, UnsupportedError
from tests.golden.case import Case
from tests.golden.compiled import compiled_plan_faults

FINAL_ALONE = {
    "agg_minibatch": "what is folded depends on the recorder's buffers",
    "normalize_skipped_upsert_sink": "repeats and unknown deletes are not passed on here",
}
"""Cases of which the final table alone is compared, and why."""
START = 1_700_000_000_000
"""Processing time at the first event, in epoch milliseconds."""

Change = tuple[str, tuple[str, ...]]


def continuous_faults(case: Case, catalog: pkray.Catalog) -> list[str]:
    """Run a case and list what differs."""
    said = case.said
    if "plan_nodes" in said:
        return compiled_plan_faults(case, catalog)
    if "rows" in said:
        listed = catalog_rows(case, catalog)
        return [] if listed == said["rows"] else [f"lists {listed}, not {said['rows']}"]
    if error := said.get("error"):
        try:
            changes_of(case, catalog)
        except (QueryError, EvaluationError, UnsupportedError):
            return []
        return [f"was not refused: {error}"]
    changes = changes_of(case, catalog)
    return [*_changelog_faults(case, changes), *_final_faults(case, changes)]


def catalog_rows(case: Case, catalog: pkray.Catalog) -> list[list[str | None]]:
    """Run a statement that lists something."""
    case.register(catalog)
    listed = catalog.sql(case.sql, dialect="flink")
    return [
        [None if value is None else str(value) for value in row.values()]
        for row in listed.to_pylist()
    ]


def changes_of(case: Case, catalog: pkray.Catalog) -> list[Change]:
    """Push the events one by one, and collect the changes of the result."""
    sources = case.register(catalog)
    relation = catalog.sql(case.sql, dialect="flink")
    now = START
    changes: list[Change] = []

    def collect(stream: Any) -> None:
        while (batch := stream.poll()) is not None:
            table = pa.Table.from_batches([batch])
            texts = case.texts(table.drop_columns(["_row_kind", "_epoch"]))
            changes.extend(zip(table["_row_kind"].to_pylist(), texts, strict=True))

    encoding = case.said.get("sink", "retract")
    with relation.stream(encoding=encoding, clock=lambda: now) as stream:
        for event in case.said["events"]:
            if event[0] == "sleep":
                now += event[1]
                continue
            now += case.said.get("step_ms", 0)
            case.push(sources[event[0]], event)
            collect(stream)
        for source in sources.values():
            source.finish()
        collect(stream)
    return changes


def _changelog_faults(case: Case, changes: list[Change]) -> list[str]:
    if case.name in FINAL_ALONE:
        return []
    expected = case.changelog()
    if case.said.get("order") == "multiset":
        missing, extra = Counter(expected) - Counter(changes), Counter(changes) - Counter(expected)
        return [f"missing {list(missing)}, extra {list(extra)}"] if missing + extra else []
    pairs = zip(expected, changes, strict=False)
    for place, (wanted, given) in enumerate(pairs):
        if wanted != given:
            return [f"change {place} is {given}, not {wanted}"]
    if len(expected) != len(changes):
        more = changes[len(expected) :] or expected[len(changes) :]
        return [f"gives {len(changes)} changes, not {len(expected)}: {more[:2]}"]
    return []


def _final_faults(case: Case, changes: list[Change]) -> list[str]:
    left: Counter[tuple[str, ...]] = Counter()
    key = case.said.get("upsert_key")
    by_key: dict[tuple[str, ...], tuple[str, ...]] = {}
    for kind, row in changes:
        left[row] += 1 if kind in ("+I", "+U") else -1
        if key is not None:
            found = tuple(row[place] for place in key)
            if kind in ("+I", "+U"):
                by_key[found] = row
            else:
                by_key.pop(found, None)
    rows = sorted(by_key.values()) if key is not None else sorted((+left).elements())
    expected = case.final()
    return [] if rows == expected else [f"leaves {rows[:4]}, not {expected[:4]}"]
