"""Recorded compiled plans: the roles of the nodes, their types, and their states."""

import re
from typing import Any

import pkray
from tests.golden.case import Case


def compiled_plan_faults(case: Case, catalog: pkray.Catalog) -> list[str]:
    """Compile the recorded statement and compare the plan with the recorded one."""
    said = case.said
    for statement in said["plan_ddl"]:
        columns = statement[statement.index("(") + 1 : statement.index(") WITH")]
        name = statement.split()[2]
        rows = said["plan_files"].get({"Orders": "orders", "LineOrders": "lines"}.get(name, ""), [])
        source = pkray.relational.changelog(_schema(columns), mode="insert")
        if rows:
            source.push(rows)
        catalog.create_view(name, source, temporary=True)
    query = said["plan_sql"].split("SELECT", 1)[1]
    relation = catalog.sql(f"SELECT {query}", dialect="flink")
    faults = []
    expected = sorted(map(_row, said["rows"]))
    given = sorted(map(_row, relation.to_arrow().to_pylist()))
    if given != expected:
        faults.append(f"gives {given}, not {expected}")
    plan = relation.compile_plan().to_dict()
    if _shape(plan["nodes"]) != _shape(said["plan_nodes"]):
        faults.append(f"nodes are {_shape(plan['nodes'])}, not {_shape(said['plan_nodes'])}")
    return faults


def _schema(columns: str) -> dict[str, str]:
    pairs = (column.strip().split(" ", 1) for column in columns.split(","))
    return {name.strip("`"): kind for name, kind in pairs}


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def _shape(nodes: list[dict[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Say of each node its role, its type and its states' names; the sink is the statement's."""
    return [
        (role, _type(node["outputType"]), [state["name"] for state in node.get("state", ())])
        for node in nodes
        if (role := _role(node["type"])) != "sink"
    ]


def _role(kind: str) -> str:
    name = re.sub(r"_\d+$", "", kind).removeprefix("stream-exec-")
    return {"table-source-scan": "scan"}.get(name, name)


def _type(text: str) -> str:
    return text.replace("VARCHAR(2147483647)", "STRING")
