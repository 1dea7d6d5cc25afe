"""The command ``pkray demo``: a stream, queries and the console, to look at."""

import signal
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from pkray.api.catalog import connect
from pkray.cli.demo import played
from pkray.extras import wing


def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="Keeps it; else it is gone at the end."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the console in a browser.")
    ] = True,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0, help="End after so long; else Ctrl-C ends it."),
    ] = None,
) -> None:
    """Show a small stream, three queries and the console, until Ctrl-C."""
    serve = wing("serving").serve
    signal.signal(signal.SIGTERM, _interrupt)

    def opened(address: str, end: Callable[[], None]) -> None:
        if seconds is not None:
            timer = threading.Timer(seconds, end)
            timer.daemon = True
            timer.start()
        if browser:
            webbrowser.open(address)

    with suppress(KeyboardInterrupt), ExitStack() as kept:
        place = folder or kept.enter_context(tempfile.TemporaryDirectory(prefix="pkray-demo-"))
        catalog = kept.enter_context(connect(place))
        kept.enter_context(played(catalog))
        serve(catalog, port=port, allow_changes=True, opened=opened)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
