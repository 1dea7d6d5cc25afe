"""The paths that are served, and what they answer."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pkray import errors
from pkray.api.catalog import Catalog
from pkray.inspection import overview, queries, tables
from pkray.metrics.exposition import CONTENT_TYPE
from pkray.serving import changes
from pkray.serving.guard import HEALTH, Access, Guard
from pkray.serving.sql import Limits, ReadingSql, check_selects
from pkray.storage.secrets import redact

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
CONSOLE = Path(__file__).parent / "console"
_THREADS = 8
"""Requests that are worked on at a time; others wait."""
_ROWS = 100
"""That are read where no number is given."""
_NOT_FOUND = (
    errors.TableNotFoundError,
    errors.QueryNotFoundError,
    errors.SnapshotNotFoundError,
    errors.BranchNotFoundError,
    errors.TagNotFoundError,
    errors.DatabaseNotFoundError,
)


class _Statement(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    dialect: str = "spark"


class Answers:
    """Answers requests for one warehouse, each on a thread: what it asks may wait for a store."""

    def __init__(self, catalog: Catalog, limits: Limits | None = None) -> None:
        self.catalog = catalog
        self._sql = ReadingSql(catalog, limits)
        self._threads = ThreadPoolExecutor(_THREADS, "pkray-serving")

    def close(self) -> None:
        """Answer no more."""
        self._threads.shutdown(cancel_futures=True)

    async def metrics(self, request: Request) -> Response:
        """Write the metrics for Prometheus; with ``?by=bucket`` also those of each bucket."""
        by = request.query_params.get("by")
        if by not in (None, "bucket"):
            return failed(400, f"metrics are not shown by {by!r}: ask with ?by=bucket, or without")

        def answer() -> Response:
            found = self.catalog.metrics(by_bucket=by is not None)
            return Response(found.to_text(), media_type=CONTENT_TYPE)

        return await self._answer(answer)

    def of(self, made: Callable[..., Any], *arguments: Any) -> Answer:
        """Answer what is made of the catalog, of what the path names, and of these arguments."""

        async def answer(request: Request) -> Response:
            return await self._json(made, *request.path_params.values(), *arguments)

        return answer

    async def rows(self, request: Request) -> Response:
        """Read rows of a table."""
        asked = _numbers(request)
        if asked is None:
            return failed(400, "snapshot and count are whole numbers")
        snapshot, count = asked.get("snapshot"), asked.get("count", _ROWS)
        return await self._json(tables.rows, request.path_params["name"], snapshot, count)

    async def changes(self, request: Request) -> Response:
        """Read what changed: at last, or between two snapshots."""
        asked, name = _numbers(request), request.path_params["name"]
        if asked is None or ("start" in asked) != ("end" in asked):
            return failed(400, "start, end and count are whole numbers: give both ends, or none")
        count = asked.get("count", _ROWS)
        if "start" not in asked:
            return await self._json(tables.changes, name, count)
        return await self._json(tables.difference, name, asked["start"], asked["end"], count)

    async def lookup(self, request: Request) -> Response:
        """Find the row of a key."""
        key = dict(request.query_params)
        return await self._json(tables.lookup, request.path_params["name"], key)

    async def diff(self, request: Request) -> Response:
        """Say what a newer SELECT would mean for the states of a query."""
        body = await request.body()

        def answer(catalog: Catalog, name: str) -> Any:
            text, dialect = _statement(body)
            check_selects(text, dialect)
            return queries.diff(catalog, name, text)

        return await self._json(answer, request.path_params["name"])

    async def sql(self, request: Request) -> Response:
        """Run a statement that reads."""
        body = await request.body()
        return await self._json(lambda _: self._sql.run(*_statement(body)))

    async def explain(self, request: Request) -> Response:
        """Give the plan of a SELECT as a graph."""
        body = await request.body()
        return await self._json(lambda _: self._sql.explain(*_statement(body)))

    async def change(self, request: Request) -> Response:
        """Do what changes something."""
        kind, name = request.path_params["kind"], request.path_params["name"]
        asked = changes.CHANGES.get((kind, request.path_params["change"]))
        if asked is None:
            return failed(404, f"a {kind} has no change of this name")
        try:
            change = msgspec.json.decode(await request.body() or b"{}", type=asked)
        except msgspec.MsgspecError as error:
            return failed(400, f"the body is not what the change takes: {error}")
        return await self._json(lambda catalog: {"done": change.make(catalog, name)})

    async def _json(self, made: Callable[..., Any], *arguments: Any) -> Response:
        def answer() -> Response:
            return as_json(made(self.catalog, *arguments))

        return await self._answer(answer)

    async def _answer(self, made: Callable[[], Response]) -> Response:
        """Answer on a thread; an error is one in the answer, without secrets."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, made)
        except errors.PkrayError as error:
            text = redact(str(error), self.catalog.storage_options)
            return failed(status_of(error), text)


def _statement(body: bytes) -> tuple[str, str]:
    """Read a statement that was sent, and its dialect."""
    try:
        given = msgspec.json.decode(body, type=_Statement)
    except msgspec.MsgspecError as error:
        raise errors.InputError(f"the body is no statement: {error}") from None
    return given.text, given.dialect


def _numbers(request: Request) -> dict[str, int] | None:
    """Read parameters that are whole numbers; None: one is none."""
    try:
        return {name: int(value) for name, value in request.query_params.items()}
    except ValueError:
        return None


def status_of(error: errors.PkrayError) -> int:
    """Say how HTTP numbers an error."""
    if isinstance(error, _NOT_FOUND):
        return 404
    is_service = isinstance(error, errors.ServiceError | errors.StorageError)
    return 503 if is_service else 400


def as_json(content: object, status: int = 200) -> Response:
    """Answer with JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def failed(status: int, text: str) -> Response:
    """Answer with an error."""
    return as_json({"error": text}, status)


def application(
    catalog: Catalog,
    access: Access,
    *,
    allow_changes: bool = False,
    with_console: bool = True,
    limits: Limits | None = None,
) -> ASGIApp:
    """Make what serves a warehouse.

    Args:
        allow_changes: whether what changes something is served, too.
        with_console: whether people get pages; else there are metrics and the health check alone.
    """
    answers = Answers(catalog, limits)
    routes: list[Route | Mount] = [
        Route(HEALTH, lambda _: PlainTextResponse("ok\n")),
        Route("/metrics", answers.metrics),
    ]
    changed = sorted(map(list, changes.CHANGES)) * allow_changes
    if with_console:
        routes += [
            *pages(),
            Route("/api/home", answers.of(overview.home)),
            Route("/api/cluster", answers.of(overview.cluster)),
            Route("/api/logs", answers.of(overview.logs)),
            Route("/api/tables/{name}", answers.of(tables.table)),
            Route("/api/tables/{name}/load", answers.of(tables.load)),
            Route("/api/tables/{name}/rows", answers.rows),
            Route("/api/tables/{name}/changes", answers.changes),
            Route("/api/tables/{name}/compactions", answers.of(tables.compactions)),
            Route("/api/tables/{name}/expiry", answers.of(tables.expiry)),
            Route("/api/tables/{name}/lookup", answers.lookup),
            Route("/api/queries/{name}", answers.of(queries.query)),
            Route("/api/queries/{name}/epochs", answers.of(queries.epochs)),
            Route("/api/queries/{name}/state/{node:int}", answers.of(queries.state, _ROWS)),
            Route("/api/queries/{name}/left-out", answers.of(queries.left_out, _ROWS)),
            Route("/api/queries/{name}/verify", answers.of(queries.verify), methods=["POST"]),
            Route("/api/queries/{name}/diff", answers.diff, methods=["POST"]),
            Route("/api/explain", answers.explain, methods=["POST"]),
            Route("/api/sql", answers.sql, methods=["POST"]),
            Route("/api/access", lambda _: as_json({"changes": changed})),
        ]
        if allow_changes:
            path = "/api/change/{kind}/{name}/{change}"
            routes.append(Route(path, answers.change, methods=["POST"]))
    return Guard(Starlette(routes=routes), access)


def pages() -> list[Route | Mount]:
    """Give the paths of the console's files."""
    page = CONSOLE / "index.html"
    return [
        Route("/", lambda _: FileResponse(page, media_type="text/html")),
        Mount("/console", StaticFiles(directory=CONSOLE)),
    ]
