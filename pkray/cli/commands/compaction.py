"""The command `compact`."""

import math
import time
from typing import Annotated, Any

import typer

from pkray.api.catalog import Catalog
from pkray.cli import arguments, output
from pkray.cli.arguments import Json, TableName
from pkray.cli.summaries import committed
from pkray.cli.warehouse import on_service
from pkray.table.table import Table


@on_service
def compact(
    catalog: Catalog,
    table: TableName,
    full: Annotated[
        bool, typer.Option("--full", help="Into one sorted run a bucket, due or not.")
    ] = False,
    partition: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE,...", help="Only this partition; repeat it."),
    ] = None,
    bucket: Annotated[
        list[int] | None, typer.Option(min=0, help="Only this bucket; repeat it.")
    ] = None,
    dedicated: Annotated[
        bool,
        typer.Option(
            "--dedicated", help="By this job alone, not by the table's service: for write-only."
        ),
    ] = False,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Of a dedicated job: buckets at a time.")
    ] = None,
    loop: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Of a dedicated job: again after so long."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Merge sorted runs."""
    if loop is not None and not math.isfinite(loop):
        raise typer.BadParameter(f"--loop takes seconds, not {loop}")
    if not dedicated and (loop is not None or parallelism is not None):
        raise typer.BadParameter("--loop and --parallelism go with --dedicated")
    partitions = [arguments.pairs(text.split(","), "--partition") for text in partition or ()]
    chosen: dict[str, Any] = {"partitions": partitions or None, "buckets": bucket or None}
    if not dedicated:
        with output.waiting("compacting"):
            snapshot = catalog.load_table(table).compact(full, **chosen)
        output.record(committed(snapshot), as_json)
        return
    while True:
        _run_job(catalog.load_table(table), full, chosen, parallelism, as_json)
        if loop is None:
            return
        time.sleep(loop)


def _run_job(
    table: Table, full: bool, chosen: dict[str, Any], parallelism: int | None, as_json: bool
) -> None:
    with output.steps("compacting", "buckets") as progress:
        report = table.compact_dedicated(full, parallelism=parallelism, progress=progress, **chosen)
    counts = {"compacted": report.compacted, "dropped": report.dropped}
    output.record({**counts, **committed(report.snapshot)}, as_json)
