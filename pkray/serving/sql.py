"""Runs what a browser may ask in SQL: it reads, within limits, and names no file."""

import threading
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pkray.api.catalog import Catalog
from pkray.errors import QueryCancelledError, UnsupportedError
from pkray.inspection.cells import columns_of, rows_of
from pkray.relational.api.composing import in_dialect
from pkray.relational.cancellation import Cancellation
from pkray.relational.explanation import Explanation
from pkray.relational.sql.statements.kinds import Describe, Explain, Query, Show
from pkray.relational.sql.statements.reading import parse_statement


@dataclass(frozen=True)
class Limits:
    """Bounds what a statement of a browser may take.

    Args:
        rows, bytes: of the answer; more is left out, and the answer says so.
        seconds: then it is cancelled.
        memory: bytes while it runs.
        at_once: statements; others wait.
    """

    rows: int = 1000
    bytes: int = 8 << 20
    seconds: float = 30.0
    memory: int = 512 << 20
    at_once: int = 2


class ReadingSql:
    """Runs SELECT, EXPLAIN of one, SHOW and DESCRIBE. Thread-safe."""

    def __init__(self, catalog: Catalog, limits: Limits | None = None) -> None:
        self._catalog = catalog
        self._limits = limits or Limits()
        self._turns = threading.BoundedSemaphore(self._limits.at_once)

    def run(self, text: str, dialect: str = "spark") -> dict[str, Any]:
        """Run one statement.

        Returns:
            ``columns``, ``rows``, ``cut`` (whether there were more), ``seconds``.

        Raises:
            UnsupportedError: a statement that does more than read.
            QueryError: it is not understood.
            QueryCancelledError: it takes too long.
        """
        check_reads(text, dialect)
        if not self._turns.acquire(timeout=self._limits.seconds):
            raise QueryCancelledError("other statements have all turns: try again in a minute")
        token, begun = Cancellation(), time.monotonic()
        timer = threading.Timer(self._limits.seconds, token.cancel)
        timer.daemon = True
        timer.start()
        try:
            found, cut = self._found(text, dialect, token)
        except QueryCancelledError:
            raise QueryCancelledError(
                f"the statement takes more than {self._limits.seconds:g} s, and is ended: select "
                "less, or run it with `pkray sql`"
            ) from None
        finally:
            timer.cancel()
            self._turns.release()
        return {
            "columns": columns_of(found.schema),
            "rows": rows_of(found),
            "cut": cut,
            "seconds": round(time.monotonic() - begun, 3),
        }

    def explain(self, text: str, dialect: str = "spark") -> dict[str, Any]:
        """Give the plan of a SELECT as a graph, as it would run continuously.

        Raises:
            UnsupportedError: it is another statement.
            QueryError: it is not understood.
        """
        check_selects(text, dialect)
        return _graph(self._catalog.sql(text, dialect).explain())

    def _found(self, text: str, dialect: str, token: Cancellation) -> tuple[pa.Table, bool]:
        made = self._catalog.sql(text, dialect)
        if isinstance(made, pa.Table):
            return made.slice(0, self._limits.rows), made.num_rows > self._limits.rows
        limited = made.limit(self._limits.rows + 1)
        kept, rows, size = [], 0, 0
        for batch in limited.to_batches(memory=self._limits.memory, cancellation=token):
            kept.append(batch.slice(0, self._limits.rows - rows))
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > self._limits.rows or size > self._limits.bytes:
                return pa.Table.from_batches(kept, made.schema), True
        return pa.Table.from_batches(kept, made.schema), False


def _graph(plan: Explanation) -> dict[str, Any]:
    """Number the nodes of a plan from its leaves on, each once, and name its edges."""
    nodes, edges = plan.graph()
    return {
        "nodes": [
            {
                "id": number,
                "type": each.description.partition("(")[0],
                "description": each.description,
                "states": ", ".join(state.name for state in each.states),
                "lints": [lint.text for lint in each.lints],
            }
            for number, each in enumerate(nodes, 1)
        ],
        "edges": [[source + 1, target + 1] for source, target in edges],
    }


def check_selects(text: str, dialect: str) -> None:
    """Check that a statement is a query, and no other.

    Raises:
        UnsupportedError: it is another one.
        QueryError: it is not understood.
    """
    if not isinstance(parse_statement(text, in_dialect(dialect)), Query):
        raise UnsupportedError("here is one SELECT: run other statements with `pkray sql`")


def check_reads(text: str, dialect: str) -> None:
    """Check that a statement reads tables, and does nothing else.

    Raises:
        UnsupportedError: it does more.
        QueryError: it is not understood.
    """
    statement = parse_statement(text, in_dialect(dialect))
    if isinstance(statement, Explain):
        statement = statement.statement
    if not isinstance(statement, Query | Show | Describe):
        raise UnsupportedError(
            "here are SELECT, EXPLAIN of one, SHOW and DESCRIBE: run what changes anything with "
            "`pkray sql`"
        )
