"""The commands ``pkray serve`` and ``pkray ui``: metrics and the console over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from pkray.api.catalog import Catalog
from pkray.cli.warehouse import on_named_service, on_named_service_or_file
from pkray.extras import wing

Host = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; 0.0.0.0: everywhere.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Holds the token; else one is printed."),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host", metavar="NAME", help="A name by which the server is called; repeatable."
    ),
]
Changes = Annotated[
    bool, typer.Option("--allow-changes", help="Let the console change tables and queries.")
]
_PORT = 8470


@on_named_service
def serve(
    catalog: Catalog,
    host: Host = "127.0.0.1",
    port: Port = _PORT,
    token_file: TokenFile = None,
    allow_host: Hosts = None,
    allow_changes: Changes = False,
    metrics_only: Annotated[
        bool, typer.Option("--metrics-only", help="Without the console.")
    ] = False,
    as_json: bool = False,
) -> None:
    """Serve metrics at /metrics and the console at /; print the address, with a token."""
    wing("serving").serve(
        catalog,
        host,
        port,
        token_file=token_file,
        hosts=allow_host or (),
        allow_changes=allow_changes,
        with_console=not metrics_only,
    )


def _recorded(path: Path, port: int) -> None:
    wing("serving").serve_recorded(path, port)


@on_named_service_or_file(_recorded)
def ui(
    catalog: Catalog, port: Port = _PORT, allow_changes: Changes = False, as_json: bool = False
) -> None:
    """Open the console on this machine, of a warehouse or of a file of `pkray diagnose`."""
    wing("serving").serve(catalog, port=port, allow_changes=allow_changes)
