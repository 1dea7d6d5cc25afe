"""The commands ``pkray expire``, ``orphans``, ``drop-partition``, ``expire-partitions``,
``rescale`` and ``consumers …``."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from pkray.catalog import Catalog, connect
from pkray.cli import arguments, output
from pkray.cli.arguments import WAREHOUSE, Json, Ray, Storage, TableName, Warehouse
from pkray.table import Table

consumers_app = typer.Typer(
    name="consumers", help="Readers of the changes that keep their place.", no_args_is_help=True
)

ConsumerId = Annotated[str, typer.Argument(metavar="CONSUMER", help="The consumer's id.")]
OlderThan = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Such as '2026-01-31 12:00:00'; younger ones stay."),
]


def expire(
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
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Remove old snapshots and the files only they name; by default as the table's options say."""
    with _connect(warehouse, storage) as catalog, output.waiting("expiring snapshots"):
        report = catalog.load_table(table).expire_snapshots(
            retain_max, retain_min, older_than, max_deletes
        )
    output.record(msgspec.structs.asdict(report), as_json)


def orphans(
    table: TableName,
    older_than: OlderThan = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing.")] = False,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Delete files that nothing of the table names; by default those older than a day."""
    with _connect(warehouse, storage) as catalog, output.counting("looking at files") as advance:
        found = catalog.load_table(table).remove_orphan_files(older_than, dry_run, advance)
    output.table(found, as_json)


def drop_partition(
    table: TableName,
    partition: Annotated[
        list[str],
        typer.Argument(metavar="PARTITION...", help="dt=a,hour=1; columns left out may be any."),
    ],
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Remove all rows of partitions."""
    with _connect(warehouse, storage, ray) as catalog, output.waiting("dropping partitions"):
        target = catalog.load_table(table)
        snapshot = target.drop_partitions(_named(target, partition))
    output.record({"snapshot": snapshot.id if snapshot else None}, as_json)


def expire_partitions(
    table: TableName,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Drop the partitions older than the table's partition.expiration-time."""
    with _connect(warehouse, storage, ray) as catalog, output.waiting("expiring partitions"):
        dropped = catalog.load_table(table).expire_partitions()
    output.table(dropped, as_json)


@consumers_app.command("list")
def list_consumers(
    table: TableName,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """List the consumers and the snapshot each reads next."""
    with _connect(warehouse, storage) as catalog:
        output.table(catalog.load_table(table).consumers.list(), as_json)


@consumers_app.command("reset")
def reset_consumer(
    table: TableName,
    consumer: ConsumerId,
    next_snapshot: Annotated[
        int | None,
        typer.Option("--next", metavar="ID", help="Default: the one that is to come.", min=1),
    ] = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Let a consumer go on from another snapshot."""
    with _connect(warehouse, storage) as catalog:
        consumers = catalog.load_table(table).consumers
        consumers.reset(consumer, next_snapshot)
        place = {
            row["consumer_id"]: row["next_snapshot_id"] for row in consumers.list().to_pylist()
        }
    output.record({"consumer": consumer, "next_snapshot": place.get(consumer)}, as_json)


@consumers_app.command("delete")
def delete_consumer(
    table: TableName,
    consumer: ConsumerId,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Forget a consumer: it no longer keeps snapshots from expiring."""
    with _connect(warehouse, storage) as catalog:
        catalog.load_table(table).consumers.delete(consumer)
    output.record({"deleted": consumer}, as_json)


def rescale(
    table: TableName,
    buckets: Annotated[int, typer.Argument(metavar="BUCKETS", help="Buckets of each partition.")],
    partition: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTITION", help="Only dt=a,hour=1 now; may be given repeatedly."),
    ] = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Spread the rows over another number of buckets; safe beside writers, and to run again."""
    rewritten = 0

    def progress(done: int, of: int) -> None:
        nonlocal rewritten
        rewritten = done
        advance(done)

    with (
        _connect(warehouse, storage, ray) as catalog,
        output.counting("rewriting partitions") as advance,
    ):
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


def _connect(warehouse: str, storage: list[str] | None, ray: str | None = None) -> Catalog:
    options: dict[str, Any] = dict(arguments.pairs(storage, "--storage"))
    if ray is None:
        return connect(warehouse, **options)
    return connect(warehouse, "ray", runtime_options={"address": ray}, **options)
