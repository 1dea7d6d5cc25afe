"""One continuous query, as the console shows it."""

import threading
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa

from pkray.api.catalog import Catalog
from pkray.errors import (
    QueryCancelledError,
    ServiceUnavailableError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from pkray.format.snapshot import COMPACT
from pkray.inspection.cells import cell, columns_of, first_rows, rows_of
from pkray.relational.cancellation import Cancellation, under
from pkray.relational.continuous.log.late_rows import LATE
from pkray.relational.continuous.log.skipped_rows import NAME as ERRORS
from pkray.relational.continuous.outlets.result_history import EPOCH, SOURCES

_EPOCHS = 100
"""The newest snapshots that are looked through: each costs a request."""


def query(catalog: Catalog, name: str) -> dict[str, Any]:
    """Describe a query: its state, its lag, and its plan as a graph with what each operator does.

    Raises:
        QueryNotFoundError: there is none.
    """
    found = catalog.query(name)
    status = found.status()
    lag, marks = status.get("lag", {}), status.get("watermarks", {})
    return {
        "name": found.name,
        "tables": list(found.tables),
        "state": status["state"],
        "failure": status.get("failure"),
        "failed_node": status.get("failed_node"),
        "sql": status.get("sql"),
        "epoch": status["epoch"],
        "workers": status.get("workers", 1),
        "late": status.get("late", 0),
        "delay": status.get("delay", {}),
        "sources": {
            source: {"position": at, **lag.get(source, {}), "watermark": marks.get(source)}
            for source, at in status["sources"].items()
        },
        "graph": _graph(found, status),
        "options": _options(found),
        "savepoints": found.savepoints(),
        "upgrade": status.get("upgrade"),
    }


def epochs(catalog: Catalog, name: str) -> dict[str, Any]:
    """List the newest epochs that changed the (first) result, the newest first, as its snapshots
    tell of them: they are there after a restart.

    Raises:
        QueryNotFoundError: there is no such query.
    """
    tables = catalog.query(name).tables
    if not tables:
        return {"epochs": []}
    result, found = catalog.load_table(tables[0]), []
    newest = result.latest_snapshot()
    last = newest.id if newest is not None else 0
    for number in range(last, max(last - _EPOCHS, 0), -1):
        try:
            snapshot = result.snapshot(number)
        except SnapshotNotFoundError:  # older ones have expired
            break
        said = snapshot.properties or {}
        if snapshot.commit_kind != COMPACT and EPOCH in said:
            found.append(
                {
                    "epoch": int(said[EPOCH]),
                    "snapshot": snapshot.id,
                    "time": snapshot.time_millis,
                    "rows": snapshot.delta_record_count,
                    "sources": cell(msgspec.json.decode(said.get(SOURCES, "{}"))),
                }
            )
    return {"epochs": found}


def state(catalog: Catalog, name: str, node: int, count: int) -> dict[str, Any]:
    """Read the first rows of what an operator remembers, as the newest checkpoint has it.

    Raises:
        QueryNotFoundError, TableNotFoundError: there is no such query or state.
    """
    return _kept(catalog, name, f"state_{node}", count)


def left_out(catalog: Catalog, name: str, count: int) -> dict[str, Any]:
    """Read the first rows that a query left out, as its newest checkpoint has them: those that came
    late, and those that it could not compute.

    Raises:
        QueryNotFoundError: there is no such query.
        TableNotFoundError: it goes to a program.
    """
    return {system: _kept(catalog, name, system, count) for system in (LATE, ERRORS)}


def _kept(catalog: Catalog, name: str, system: str, count: int) -> dict[str, Any]:
    tables = catalog.query(name).tables
    if not tables:
        raise TableNotFoundError(
            f"the query {name} goes to a program, and has no table of {system}"
        )
    rows = catalog.load_table(f"{tables[0]}${system}")
    kept = first_rows(iter(rows.to_batches()), count)
    made = pa.Table.from_batches(kept) if kept else pa.table({})
    return {"columns": columns_of(made.schema), "rows": rows_of(made)}


def diff(catalog: Catalog, name: str, text: str) -> dict[str, Any]:
    """Say what becomes of each operator with state if a newer SELECT takes over.

    Raises:
        QueryNotFoundError: there is no such query.
        QueryError: the statement is not understood.
    """
    return catalog.query(name).diff(text).to_dict()


VERIFY_SECONDS = 300.0
"""A comparison may take so long: people wait for it."""
_verifying = threading.Lock()


def verify(catalog: Catalog, name: str, seconds: float = VERIFY_SECONDS) -> dict[str, Any]:
    """Compare the result with a bounded run; one at a time: each reads all of its sources.

    Args:
        seconds: then it is ended.

    Raises:
        QueryNotFoundError: there is no such query.
        ServiceUnavailableError: another comparison is under way.
        QueryCancelledError: it takes too long.
    """
    found = catalog.query(name)
    if not _verifying.acquire(blocking=False):
        raise ServiceUnavailableError("another query is being verified: try again after it")
    token = Cancellation()
    timer = threading.Timer(seconds, token.cancel)
    timer.daemon = True
    timer.start()
    try:
        with under(token):
            report = found.verify()
    except QueryCancelledError:
        raise QueryCancelledError(
            f"to verify {name} takes more than {seconds:g} s, and is ended: run it with "
            f"`pkray query verify {name}`"
        ) from None
    finally:
        timer.cancel()
        _verifying.release()
    return {
        "equal": report.equal,
        "said": str(report),
        "excluded": list(report.excluded),
        "missing": {"columns": columns_of(report.missing.schema), "rows": rows_of(report.missing)},
        "extra": {"columns": columns_of(report.extra.schema), "rows": rows_of(report.extra)},
    }


def _options(found: Any) -> dict[str, Any]:
    """Give what was set; of an address that is told of failures the host alone: its path may be a
    secret, as those of chats are."""
    options = dict(found._watched.current.definition.options)
    if url := options.get("failure_url"):
        options["failure_url"] = f"{urlsplit(url).scheme}://{urlsplit(url).hostname}/…"
    return options


def _graph(found: Any, status: dict[str, Any]) -> dict[str, Any]:
    """Name the operators, what each does and did, and what it reads of."""
    document = found._watched.current.definition.document
    busy, most = status.get("busy", {}), status.get("busiest", {})
    done = {each["id"]: each for each in status["nodes"]}
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
                "watermark": did.get("watermark"),
                "seconds": did.get("seconds"),
                "busy": busy.get(str(each["id"])),
                "busiest": most.get(str(each["id"])),
                "state_rows": sum(did.get("state_rows", {}).values()),
                "state_bytes": sum(size for part in sizes for size in part.values()),
            }
        )
    edges = [[each["source"], each["target"]] for each in document["edges"]]
    return {"nodes": nodes, "edges": edges}
