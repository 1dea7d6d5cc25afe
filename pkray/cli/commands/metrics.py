"""The command ``pkray metrics``: what the processes count, and what the warehouse's files say."""

from typing import Annotated

import msgspec
import typer

from pkray.api.catalog import Catalog
from pkray.cli.warehouse import on_named_service

ByBucket = Annotated[
    bool, typer.Option("--by-bucket", help="Also levels, backlog and lookups of each bucket.")
]


@on_named_service
def metrics(catalog: Catalog, by_bucket: ByBucket = False, as_json: bool = False) -> None:
    """Print the metrics as Prometheus reads them; with --json a line each series."""
    found = catalog.metrics(by_bucket=by_bucket)
    if not as_json:
        typer.echo(found.to_text(), nl=False)
        return
    for record in found.to_records():
        typer.echo(msgspec.json.encode(record).decode())
