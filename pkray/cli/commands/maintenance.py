"""The commands ``pkray expire``, ``orphans``, ``drop-partition``, ``expire-partitions``,
``rescale`` and ``consumers …``."""

from typing import Annotated

import msgspec
import typer

from pkray.api.catalog import Catalog
from pkray.cli import arguments, output
from pkray.cli.arguments import Json, TableName
from pkray.cli.warehouse import on_service, on_warehouse
from pkray.errors import OptionError
from pkray.table.table import Table

consumers_app = typer.Typer(
    name="consumers", help="Readers of the changes that keep their place.", no_args_is_help=True
)

ConsumerId = Annotated[str, typer.Argument(metavar="CONSUMER", help="The consumer's id.")]
OlderThan = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Such as '2026-01-31 12:00:00'; younger ones stay."),
]


@on_warehouse
def expire(
    catalog: Catalog,
    table: TableName,
    retain_max: Annotated[
        int | None, typer.Option(metavar="N", help="Keep at most so many snapshots.", min=1)
    ] = None,
    retain_min: Annotated[
        int | None, typer.Option(metavar="N", help="Keep at least so many snapshots.", min=1)
    ] = None,
    older_than: OlderThan = None,
    max_deletes: Annotated[
        int | None, typer.Option(metavar="N", help="Expire at most so many.", min=1)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove old snapshots and the files only they name; by default as the table's options say."""
    with output.waiting("expiring snapshots"):
        report = catalog.load_table(table).expire_snapshots(
            retain_max, retain_min, older_than, max_deletes, dry_run
        )
    output.record(msgspec.structs.asdict(report), as_json)


@on_warehouse
def orphans(
    catalog: Catalog,
    table: TableName,
    older_than: OlderThan = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Delete files that nothing of the table names; by default those older than a day."""
    with output.counting("looking at files") as advance:
        found = catalog.load_table(table).remove_orphan_files(older_than, dry_run, advance)
    output.table(found, as_json)


@on_service
def drop_partition(
    catalog: Catalog,
    table: TableName,
    partition: Annotated[
        list[str],
        typer.Argument(metavar="PARTITION...", help="dt=a,hour=1; columns left out may be any."),
    ],
    as_json: Json = False,
) -> None:
    """Remove all rows of partitions."""
    with output.waiting("dropping partitions"):
        target = catalog.load_table(table)
        snapshot = target.drop_partitions(_named(target, partition))
    output.record({"snapshot": snapshot.id if snapshot else None}, as_json)


@on_service
def expire_partitions(catalog: Catalog, table: TableName, as_json: Json = False) -> None:
    """Drop the partitions older than the table's partition.expiration-time."""
    with output.waiting("expiring partitions"):
        dropped = catalog.load_table(table).expire_partitions()
    output.table(dropped, as_json)


@consumers_app.command("list")
@on_warehouse
def list_consumers(catalog: Catalog, table: TableName, as_json: Json = False) -> None:
    """List the consumers and the snapshot each reads next."""
    output.table(catalog.load_table(table).consumers.list(), as_json)


@consumers_app.command("reset")
@on_warehouse
def reset_consumer(
    catalog: Catalog,
    table: TableName,
    consumer: ConsumerId,
    next_snapshot: Annotated[
        int | None,
        typer.Option("--next", metavar="ID", help="Default: the one that is to come.", min=1),
    ] = None,
    as_json: Json = False,
) -> None:
    """Let a consumer go on from another snapshot."""
    consumers = catalog.load_table(table).consumers
    consumers.reset(consumer, next_snapshot)
    place = {row["consumer_id"]: row["next_snapshot_id"] for row in consumers.list().to_pylist()}
    output.record({"consumer": consumer, "next_snapshot": place.get(consumer)}, as_json)


@consumers_app.command("delete")
@on_warehouse
def delete_consumer(
    catalog: Catalog, table: TableName, consumer: ConsumerId, as_json: Json = False
) -> None:
    """Forget a consumer: it no longer keeps snapshots from expiring."""
    consumers = catalog.load_table(table).consumers
    there = consumers.list()["consumer_id"].to_pylist()
    if consumer not in there:
        others = f"its consumers are {', '.join(there)}" if there else "it has none"
        raise OptionError(f"{table} has no consumer {consumer!r}: {others}", value=consumer)
    consumers.delete(consumer)
    output.record({"deleted": consumer}, as_json)


@on_service
def rescale(
    catalog: Catalog,
    table: TableName,
    buckets: Annotated[int, typer.Argument(metavar="BUCKETS", help="Buckets of each partition.")],
    partition: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTITION", help="Only dt=a,hour=1 now; may be given repeatedly."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Spread the rows over another number of buckets; safe while others write or if repeated."""
    rewritten = 0

    def progress(done: int, of: int) -> None:
        nonlocal rewritten
        rewritten = done
        advance(done)

    with output.counting("rewriting partitions") as advance:
        target = catalog.load_table(table)
        target.rescale(buckets, _named(target, partition) if partition else None, progress)
    output.record({"buckets": buckets, "partitions_rewritten": rewritten}, as_json)


def _named(table: Table, partitions: list[str]) -> list[dict[str, str | None]]:
    default = table.schema.core.partition_default_name
    return [
        {
            name: None if value == default else value
            for name, value in arguments.pairs(text.split(","), "PARTITION").items()
        }
        for text in partitions
    ]
