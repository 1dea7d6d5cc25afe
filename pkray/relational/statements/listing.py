"""The functions there are, as rows for people."""

from collections.abc import Mapping
from typing import Any

from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.aggregates import catalogue as aggregates


def function_rows(dialect: Dialect, own: Mapping[str, Any] | None = None) -> list[dict[str, str]]:
    """List functions by name: name, kind, usage and what it does.

    Args:
        own: users' functions by name.
    """
    rows = [_row(each, each.family or "scalar") for each in function.written(dialect)]
    rows += [_row(each, "aggregate") for each in aggregates.written_aggregates(dialect)]
    rows += [_row(each, "window") for each in aggregates.written_windows()]
    rows += [
        {"name": name, "kind": f"user's {each.kind}", "usage": str(each.type), "about": ""}
        for name, each in (own or {}).items()
    ]
    return sorted(rows, key=lambda row: (row["name"], row["kind"]))


def _row(described: Any, kind: str) -> dict[str, str]:
    return {
        "name": described.name,
        "kind": kind,
        "usage": described.usage,
        "about": described.about,
    }
