"""The command ``pkray changelog``."""

from contextlib import closing
from typing import Annotated, cast

import typer

from pkray.api.catalog import Catalog
from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.reader import ChangelogReader
from pkray.changelog.request import ChangeRequest
from pkray.changelog.start import StartMode
from pkray.cli import arguments, output
from pkray.cli.arguments import Json, TableName
from pkray.cli.warehouse import on_warehouse


@on_warehouse
def changelog(
    catalog: Catalog,
    table: TableName,
    first: Annotated[
        int | None,
        typer.Option("--from", metavar="ID", help="The first snapshot. Default the oldest.", min=1),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--to", metavar="ID", help="The last snapshot. Default the newest.", min=1),
    ] = None,
    from_tag: Annotated[
        str | None, typer.Option("--from-tag", metavar="NAME", help="The first, by a tag.")
    ] = None,
    to_tag: Annotated[
        str | None, typer.Option("--to-tag", metavar="NAME", help="The last, by a tag.")
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option("--from-timestamp", metavar="TIME", help="The first, at that time or later."),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option("--to-timestamp", metavar="TIME", help="The last, at that time or before."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what is committed, until interrupted.")
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Begin as a stream does: latest-full (the whole table), latest, compacted-full, "
            "from-snapshot or from-snapshot-full with --from, from-timestamp.",
        ),
    ] = None,
    consumer: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Go on where this consumer was, and keep its place."),
    ] = None,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Rows before and after, looked up where need be.")
    ] = False,
    poll: Annotated[
        float | None, typer.Option("--poll", metavar="SECONDS", help="Between two looks.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what changed, snapshot by snapshot."""
    source = catalog.load_table(table)
    history = ChangeHistory(source.location.open())
    start, end = arguments.time(from_time), arguments.time(to_time)
    to_id = history.id_of(last, to_tag, end, is_end=True)
    if not (follow or consumer or mode):
        from_id = history.id_of(first, from_tag, start, is_end=False)
        batches = source.changelog_batches(from_id, to_id, normalize=normalize)
        schema = ChangeRequest.from_arguments(None, source.schema).arrow_schema
        output.rows(batches, schema, as_json)
        return
    from_id = first if from_tag is None else history.tagged(from_tag).id
    newest = source.latest_snapshot()
    if mode is None and from_id is None and start is None:
        reader = ChangelogReader(source.location.open(), source.schema, normalize=normalize)
        from_id = reader.earliest(newest.id if newest is not None else 0)
    if to_id is None and not follow:
        to_id = newest.id if newest is not None else 0
    stream = source.stream(
        consumer, cast("StartMode | None", mode), from_id, start, poll, to_id, normalize=normalize
    )
    with closing(stream):
        output.rows(stream, stream.schema, as_json, at_once=follow)
