"""Plans as JSON, and what is refused of a file."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest

from pkray.errors import PlanError, TableNotFoundError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import is_known
from pkray.relational.optimizer import optimize
from pkray.relational.plan.json.reader import PlanNames, from_json
from pkray.relational.plan.json.writer import to_json
from pkray.relational.plan.nodes import Node, Scan, Sink
from pkray.relational.plan.physical import to_logical, to_physical
from pkray.relational.plan.plan_diff import diff_of
from pkray.relational.sources import Source
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.parser import parse_query
from pkray.scan.moment import Moment
from tests.unit.relational.plan.sample_plans import scan

SOURCES: dict[str, Source] = {
    "orders": scan(
        "id INT NOT NULL, item STRING, n INT, price DECIMAL(10,2), ts* TIMESTAMP(3)",
        *("id", "all", "default.orders"),
    ).source,
    "items": scan(
        "item STRING NOT NULL, kind STRING, tags ARRAY<STRING>", "item", "upsert", "default.items"
    ).source,
    "rates": scan(
        "item STRING NOT NULL, rate DOUBLE, since* TIMESTAMP(3)", "item", "upsert", "default.rates"
    ).source,
    "events": scan("k STRING, v INT, ts* TIMESTAMP(3)", "", "insert", "default.events").source,
}

QUERIES = [
    "SELECT id, n * 2 AS m FROM orders WHERE n > 1 AND item LIKE 'a%'",
    "SELECT item, count(*) AS c, sum(price) AS s FROM orders GROUP BY item HAVING count(*) > 1",
    "SELECT count(DISTINCT item) AS c, sum(n) FILTER (WHERE n > 1) AS s FROM orders",
    "SELECT o.id, i.kind FROM orders o LEFT JOIN items i ON o.item = i.item AND o.n > 3",
    "SELECT * FROM orders WHERE item NOT IN (SELECT item FROM items)",
    "SELECT * FROM orders o WHERE EXISTS (SELECT 1 FROM items i WHERE i.item = o.item)",
    "SELECT id, (SELECT max(v) FROM events e WHERE e.k = o.item) AS top FROM orders o",
    "SELECT item FROM orders UNION SELECT item FROM items",
    "SELECT item FROM orders EXCEPT ALL SELECT item FROM items",
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY item ORDER BY n DESC) AS r "
    "FROM orders) WHERE r <= 3",
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts) AS r FROM events) "
    "WHERE r = 1",
    "SELECT id, sum(n) OVER (PARTITION BY item ORDER BY ts ROWS 2 PRECEDING) AS s FROM orders",
    "SELECT window_start, count(*) AS c FROM TUMBLE(TABLE events, DESCRIPTOR(ts), "
    "INTERVAL '10' MINUTES) GROUP BY window_start, window_end",
    "SELECT item, kind, count(*) AS c FROM items GROUP BY GROUPING SETS ((item), (kind), ())",
    "SELECT item, tag FROM items LATERAL VIEW OUTER explode(tags) t AS tag",
    "SELECT o.id, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r "
    "ON o.item = r.item",
    "SELECT * FROM orders ORDER BY n DESC, id LIMIT 5 OFFSET 1",
    "SELECT * FROM (VALUES (1, 'a', DATE'2020-01-01'), (2, NULL, NULL)) AS t(a, b, c)",
    "SELECT CASE WHEN n > 1 THEN 'many' WHEN n IS NULL THEN 'none' ELSE 'one' END AS w, "
    "CAST(price AS DOUBLE) AS p, try_cast(item AS INT) AS i FROM orders",
    "SELECT transform(tags, x -> upper(x)) AS t, size(tags) AS s FROM items",
]


class Names:
    """Finds the sample tables."""

    dialect = Dialect.SPARK

    def relation(self, parts: tuple[str, ...], options: Mapping[str, str], at: Moment) -> Node:
        return Scan(SOURCES[parts[-1]], options=tuple(sorted(options.items())))

    def udf(self, name: str) -> None:
        return None


def find(name: str, options: Mapping[str, str], at: Moment) -> Source:
    known = {source.name: source for source in SOURCES.values()}
    if name not in known:
        raise TableNotFoundError(f"there is no table {name}")
    return known[name]


NAMES = PlanNames(find, lambda name: None, is_known)


def physical(sql: str) -> Node:
    logical = Binder(Names()).query(parse_query(sql, Dialect.SPARK))
    return to_physical(optimize(logical), before=True)


def written(sql: str) -> dict[str, Any]:
    return as_json(physical(sql))


def as_json(*roots: Node) -> dict[str, Any]:
    needs = [True] * len(roots)
    return to_json(roots, dialect="spark", version="0.1.0", ttl="0 ms", before=needs)


@pytest.mark.parametrize("sql", QUERIES)
def test_a_plan_is_read_as_it_was_written(sql: str) -> None:
    root = physical(sql)
    document = as_json(root)
    (read,) = from_json(json.loads(json.dumps(document)), NAMES)
    assert read == root
    assert as_json(read) == document


def test_what_plans_have_in_common_is_written_once() -> None:
    roots = [Sink(physical(GROUPS), f"default.{name}", ("a", "b", "c")) for name in "xy"]
    document = as_json(*roots)
    kinds = [node["type"] for node in document["nodes"]]
    assert kinds.count("aggregate_1") == 1
    assert kinds.count("sink_1") == 2
    assert list(from_json(document, NAMES)) == roots


@pytest.mark.parametrize("sql", QUERIES)
def test_what_runs_bounded_has_the_plan_s_columns(sql: str) -> None:
    root = physical(sql)
    assert to_logical(root).fields == root.fields


JOIN = QUERIES[3]
GROUPS = QUERIES[1]


Mutation = tuple[Callable[[dict[str, Any]], Any], str]
"""What is changed in a plan, and the place of which is told."""


def holder_of(document: Any, path: Sequence[Any]) -> Any:
    """Find what has the last key of a path."""
    for key in path[:-1]:
        document = document[key]
    return document


def set_in(*path: Any, value: Any, told: str | None = None) -> Mutation:
    def change(document: dict[str, Any]) -> None:
        holder_of(document, path)[path[-1]] = value

    return change, place_of(path) if told is None else told


def take_out(*path: Any, told: str | None = None) -> Mutation:
    def change(document: dict[str, Any]) -> None:
        del holder_of(document, path)[path[-1]]

    return change, place_of(path) if told is None else told


def place_of(path: Sequence[Any]) -> str:
    return "".join(f"/{key}" for key in path)


def number(document: dict[str, Any], kind: str) -> int:
    """Find the place of a node in a plan."""
    return next(i for i, n in enumerate(document["nodes"]) if n["type"] == kind)


AT_JOIN = number(written(JOIN), "join_1")
AT_SCAN = number(written(JOIN), "scan_1")
NODE, SCAN = ("nodes", AT_JOIN), ("nodes", AT_SCAN)
MUTATIONS: dict[str, Mutation] = {
    "planVersion": set_in("planVersion", value=99),
    "no version": take_out("planVersion", told=""),
    "another dialect": set_in("dialect", value="hive"),
    "an entry more": set_in("extra", value=1),
    "nodes are no list": set_in("nodes", value={}),
    "no nodes": set_in("nodes", value=[]),
    "a node is no object": set_in("nodes", 0, value=3),
    "an unknown type": set_in(*NODE, "type", value="cube_1"),
    "an id twice": set_in(*NODE, "id", value=1),
    "an id that is no number": set_in(*NODE, "id", value="x"),
    "an edge from nowhere": set_in("edges", 0, "source", value=77),
    "an edge to nowhere": set_in("edges", 0, "target", value=77),
    "a circle": (lambda d: d["edges"].append({"source": len(d["nodes"]), "target": 2}), "/edges"),
    "an input less": take_out("edges", -1, told="/edges"),
    "an unknown entry": set_in(*NODE, "colour", value="red"),
    "an entry less": take_out(*NODE, "leftKeys", told=place_of(NODE)),
    "an unknown kind": set_in(*NODE, "joinType", value="outer"),
    "a key that is no column": set_in(*NODE, "leftKeys", 0, value="x"),
    "names that are too few": set_in(*NODE, "rightNames", value=[], told=place_of(NODE)),
    "a bad condition": set_in(*NODE, "condition", "sql", value="n >"),
    "a condition of another type": set_in(*NODE, "condition", "type", value="INT"),
    "a duration": set_in(*NODE, "state", 0, "ttl", value="3 weeks"),
    "another digest": set_in(*NODE, "digest", value="0123456789abcdef"),
    "another description": set_in(*NODE, "description", value="Join"),
    "other inputProperties": set_in(
        *NODE, "inputProperties", value=[{"distribution": "single"}] * 2
    ),
    "other leftUpsertKeys": set_in(*NODE, "leftUpsertKeys", value=[["k"]]),
    "no digest": take_out(*NODE, "digest"),
    "a shuffle": set_in("edges", 1, "shuffle", value={"type": "single"}),
    "no shuffle": take_out("edges", 1, "shuffle"),
    "a mode": set_in("edges", 0, "changelogMode", value=["D"]),
    "no mode": take_out("edges", 0, "changelogMode"),
    "a state less": take_out(*NODE, "state", 1, told=place_of((*NODE, "state"))),
    "a state's name": set_in(*NODE, "state", 0, "name", value="x"),
    "another output": set_in(*NODE, "outputType", value="ROW<`a` INT>"),
    "an unknown table": set_in(*SCAN, "table", value="default.gone"),
    "another primary key": set_in(*SCAN, "primaryKey", value=["n"]),
    "a column's type": set_in(*SCAN, "tableColumns", 0, "type", value="BIGINT"),
    "a column that is gone": set_in(
        *SCAN, "tableColumns", 1, "name", value="gone", told=place_of((*SCAN, "tableColumns", 1))
    ),
    "options that are no texts": set_in(*SCAN, "options", value={"a": 1}),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_changed_plan_is_refused_with_its_place(name: str) -> None:
    change, told = MUTATIONS[name]
    document = written(JOIN)
    change(document)
    with pytest.raises(PlanError) as raised:
        from_json(document, NAMES)
    assert told in [place for place, _ in raised.value.faults]


def test_all_faults_are_told_at_once() -> None:
    document = written(JOIN)
    document["nodes"][AT_JOIN]["state"][0]["ttl"] = "soon"
    document["nodes"][AT_SCAN]["primaryKey"] = ["n"]
    with pytest.raises(PlanError) as raised:
        from_json(document, NAMES)
    assert {place for place, _ in raised.value.faults} == {
        f"/nodes/{AT_SCAN}/primaryKey",
        f"/nodes/{AT_JOIN}/state/0/ttl",
    }


@pytest.mark.parametrize("document", [None, [], "plan", 3, {"nodes": 1}])
def test_what_is_no_plan_is_refused(document: Any) -> None:
    with pytest.raises(PlanError):
        from_json(document, NAMES)


def test_a_changed_duration_is_read() -> None:
    document = written(JOIN)
    document["nodes"][AT_JOIN]["state"][0]["ttl"] = "3000 ms"
    assert from_json(document, NAMES) == (physical(JOIN),)


def test_a_column_that_was_added_to_a_table_is_harmless() -> None:
    document = written(JOIN)
    del document["nodes"][AT_SCAN]["tableColumns"][-1]
    assert from_json(document, NAMES) == (physical(JOIN),)


def test_a_filter_elsewhere_and_a_duration_keep_a_state() -> None:
    newer = written("SELECT * FROM (" + JOIN + ") WHERE kind = 'x' OR kind IS NULL")
    newer["nodes"][number(newer, "join_1")]["state"][0]["ttl"] = "1 d"
    changes = diff_of(written(JOIN), newer)
    assert [each.fate for each in changes.nodes if "Join" in each.description] == ["kept"]


def test_another_aggregate_is_warmed_up() -> None:
    changes = diff_of(written(GROUPS), written(GROUPS.replace("sum(price)", "max(price)")))
    fates = {each.fate: each.differs for each in changes.nodes if "Aggregate" in each.description}
    assert fates["warmed up"] == ("aggregates", "outputType")
    assert "dropped" in fates


def places(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the paths of all values below a value."""
    below = value.items() if isinstance(value, dict) else enumerate(value)
    paths = [(*before, key) for key, _ in below]
    inner = value.values() if isinstance(value, dict) else value
    for path, each in zip(list(paths), inner, strict=True):
        if isinstance(each, dict | list):
            paths += places(each, path)
    return paths


def test_no_list_that_is_too_short_or_long_ends_in_another_error_than_a_refusal() -> None:
    document = written(JOIN)
    for path in places(document):
        for change in (lambda each: each[:-1], lambda each: [*each, *each[-1:]]):
            changed = copy.deepcopy(document)
            holder = holder_of(changed, path)
            if isinstance(holder[path[-1]], list):
                holder[path[-1]] = change(holder[path[-1]])
                with suppress(PlanError):
                    from_json(changed, NAMES)


def test_a_plan_with_too_few_keys_is_refused_with_the_node() -> None:
    document = written(JOIN)
    document["nodes"][AT_JOIN]["rightKeys"] = []
    with pytest.raises(PlanError, match="1 leftKeys and 0 rightKeys"):
        from_json(document, NAMES)


@pytest.mark.parametrize("wrong", [None, -1, "other", [], {}, True, [1], {"a": 1}])
def test_no_value_in_a_file_ends_in_another_error_than_a_refusal(wrong: Any) -> None:
    document = written("SELECT item, count(*) AS c FROM orders WHERE n > 1 GROUP BY item")
    for path in places(document):
        changed = copy.deepcopy(document)
        holder_of(changed, path)[path[-1]] = wrong
        with suppress(PlanError):
            from_json(changed, NAMES)
