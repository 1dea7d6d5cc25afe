"""One continuous query, as the console shows it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pkray.api.catalog import Catalog


def query(catalog: Catalog, name: str) -> dict[str, Any]:
    """Describe a query: its state, its lag, and its plan as a graph with what each operator does.

    Raises:
        QueryNotFoundError: there is none.
    """
    found = catalog.query(name)
    status = found.status()
    lag = status.get("lag", {})
    return {
        "name": found.name,
        "tables": list(found.tables),
        "state": status["state"],
        "failure": status.get("failure"),
        "failed_node": status.get("failed_node"),
        "epoch": status["epoch"],
        "workers": status.get("workers", 1),
        "late": status.get("late", 0),
        "sources": {
            source: {"position": at, **lag.get(source, {}), "watermark": _mark(status, source)}
            for source, at in status["sources"].items()
        },
        "graph": _graph(found, status),
        "options": _options(found),
        "savepoints": found.savepoints(),
        "upgrade": status.get("upgrade"),
    }


def _options(found: Any) -> dict[str, Any]:
    """Give what was set; of an address that is told of failures the host alone: its path may be a
    secret, as those of chats are."""
    options = dict(found._watched.current.definition.options)
    if url := options.get("failure_url"):
        options["failure_url"] = f"{urlsplit(url).scheme}://{urlsplit(url).hostname}/…"
    return options


def _mark(status: dict[str, Any], source: str) -> int | None:
    mark: int | None = status.get("watermarks", {}).get(source)
    return mark


def _graph(found: Any, status: dict[str, Any]) -> dict[str, Any]:
    """Name the operators, what each does and did, and what it reads of."""
    document = found._watched.current.definition.document
    busy, done = status.get("busy", {}), {each["id"]: each for each in status["nodes"]}
    nodes = []
    for each in document["nodes"]:
        did = done.get(each["id"], {})
        sizes = (did.get("state_bytes", {}), did.get("state_file_bytes", {}))
        nodes.append(
            {
                "id": each["id"],
                "type": each["type"].rpartition("_")[0],
                "description": each["description"],
                "rows_in": did.get("rows_in"),
                "rows_out": did.get("rows_out"),
                "seconds": did.get("seconds"),
                "busy": busy.get(str(each["id"])),
                "state_rows": sum(did.get("state_rows", {}).values()),
                "state_bytes": sum(size for part in sizes for size in part.values()),
            }
        )
    edges = [[each["source"], each["target"]] for each in document["edges"]]
    return {"nodes": nodes, "edges": edges}
