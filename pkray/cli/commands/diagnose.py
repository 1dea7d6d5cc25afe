"""The command ``pkray diagnose``: one file that says how the warehouse is."""

import time
from pathlib import Path
from typing import Annotated

import typer

from pkray.api.catalog import Catalog
from pkray.cli import output
from pkray.cli.warehouse import on_named_service
from pkray.inspection import diagnose as written


@on_named_service
def diagnose(
    catalog: Catalog,
    file: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: named after the time."),
    ] = None,
    lines: Annotated[
        int, typer.Option("--lines", min=0, help="Of the log of each process; 0: none.")
    ] = 500,
    as_json: bool = False,
) -> None:
    """Write metrics, plans, layouts, states and logs, without rows and secrets, to one file."""
    named = file or Path(time.strftime("pkray-diagnosis-%Y%m%d-%H%M%S.zip", time.gmtime()))
    with output.waiting("looking at tables and queries"):
        made = written(catalog, named, lines=lines)
    output.record({"file": str(made), "bytes": made.stat().st_size}, as_json)
