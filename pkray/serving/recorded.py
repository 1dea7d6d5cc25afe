"""Serves the console of a file that `pkray.diagnose` has made, in place of a warehouse."""

from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pkray.errors import PkrayError
from pkray.inspection import Diagnosis
from pkray.metrics.exposition import CONTENT_TYPE
from pkray.serving.application import as_json, failed, pages, status_of
from pkray.serving.guard import HEALTH, Access, Guard


def recorded_application(diagnosis: Diagnosis, access: Access) -> ASGIApp:
    """Make what serves a diagnosis: nothing in it runs, is looked up or changes."""
    about = diagnosis.about
    said = {"changes": [], "recorded": {"made": about.made, "versions": about.versions}}
    routes = [
        Route(HEALTH, lambda _: PlainTextResponse("ok\n")),
        *pages(),
        Route("/metrics", lambda _: Response(diagnosis.metrics(), media_type=CONTENT_TYPE)),
        Route("/api/access", lambda _: as_json(said)),
        Route("/api/home", _answering(lambda _: diagnosis.home())),
        Route("/api/cluster", _answering(lambda _: diagnosis.cluster())),
        Route("/api/logs", _answering(lambda _: {"logs": diagnosis.logs()})),
        Route("/api/tables/{name}", _answering(lambda asked: diagnosis.table(_name(asked)))),
        Route("/api/queries/{name}", _answering(lambda asked: diagnosis.query(_name(asked)))),
    ]
    return Guard(Starlette(routes=routes), access)


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _answering(made: Callable[[Request], Any]) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            found = made(request)
        except PkrayError as error:
            return failed(status_of(error), str(error))
        if found is None:
            return failed(404, "the file says nothing of it")
        if "error" in found:
            return failed(503, str(found["error"]))
        return as_json(found)

    return answer
