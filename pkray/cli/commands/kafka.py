"""The commands ``pkray kafka …``: topics into tables, and tables into topics."""

from pathlib import Path
from typing import Annotated

import typer

from pkray.api.catalog import Catalog
from pkray.cli import output
from pkray.cli.arguments import AvroSchema, ErrorsTable, Json, Metadata, TableName, time
from pkray.cli.commands.rows import avro_schema_files, errors_table, metadata_of
from pkray.cli.ending import until_ended
from pkray.cli.warehouse import on_service
from pkray.kafka.topic_sink import write as topic_sink
from pkray.kafka.topic_source import read as topic_source

kafka_app = typer.Typer(
    name="kafka", help="Topics into tables, and tables into topics.", no_args_is_help=True
)
Topic = Annotated[str, typer.Argument(help="The topic.")]
Servers = Annotated[str, typer.Option(metavar="HOST:PORT,…", help="Its brokers.")]
Config = Annotated[
    Path | None,
    typer.Option(help="A file of librdkafka's settings, a NAME=VALUE a line, and passwords."),
]


@kafka_app.command("read")
@on_service
def read(
    catalog: Catalog,
    table: TableName,
    topic: Topic,
    servers: Servers,
    change_format: Annotated[
        str,
        typer.Option(
            "--format", metavar="debezium-json|…", help="How the messages' values are written."
        ),
    ],
    config: Config = None,
    begin: Annotated[
        str | None,
        typer.Option(
            metavar="earliest|latest", help="Where to begin a table that has rows and no offsets."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when all is read that is there now.")
    ] = False,
    metadata: Metadata = None,
    avro_schema: AvroSchema = None,
    merge_schema: Annotated[
        bool, typer.Option("--merge-schema", help="Add the topic's new columns to the table.")
    ] = False,
    errors: ErrorsTable = None,
    as_json: Json = False,
) -> None:
    """Bring a topic's events until stopped; go on where it ended."""
    found = topic_source(
        catalog.load_table(table),
        topic,
        servers=servers,
        format=change_format,
        config=_settings(config),
        begin=begin,  # type: ignore[arg-type] # checked there
        metadata=metadata_of(metadata),
        avro_schema=avro_schema_files(avro_schema),
        new_columns="add" if merge_schema else "refuse",
        errors=errors_table(catalog, table, errors),
    )
    with until_ended(), output.waiting(f"reading {topic}"):
        found.run(once=once)
    bad = {} if errors is None else {"bad": found.bad}
    output.record({"rows": found.rows, **bad}, as_json)


@kafka_app.command("write")
@on_service
def write(
    catalog: Catalog,
    table: TableName,
    topic: Topic,
    servers: Servers,
    change_format: Annotated[
        str,
        typer.Option(
            "--format", metavar="debezium-json|upsert-json", help="How messages are written."
        ),
    ],
    config: Config = None,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Where to begin a topic that does not say how far the table was written: "
            "latest-full (the whole table), latest, or another one of `pkray changelog`.",
        ),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option("--from", metavar="ID", help="Begin there with this snapshot.", min=1),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option("--from-timestamp", metavar="TIME", help="Or with the changes of that time."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when all is written that is there now.")
    ] = False,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Rows before and after, looked up where need be.")
    ] = False,
    consumer: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Keep what is not written from expiring, as this one."),
    ] = None,
    name: Annotated[
        str, typer.Option(help="Tells writers of one table to one topic apart.")
    ] = "pkray",
    as_json: Json = False,
) -> None:
    """Write a table's changes to a topic until stopped; go on where it ended."""
    found = topic_sink(
        catalog.load_table(table),
        topic,
        servers=servers,
        format=change_format,  # type: ignore[arg-type] # checked there
        config=_settings(config),
        mode=mode,  # type: ignore[arg-type] # checked there
        from_snapshot=first,
        from_timestamp=time(from_time),
        normalize=normalize,
        consumer_id=consumer,
        name=name,
    )
    with until_ended(), output.waiting(f"writing {topic}"):
        found.run(once=once)
    output.record({"rows": found.rows}, as_json)


def _settings(path: Path | None) -> dict[str, str]:
    """Read ``--config``; a line that begins with ``#`` is a comment."""
    if path is None:
        return {}
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--config: {error}") from None
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    for number, (name, equals, _) in enumerate(pairs, 1):
        if not equals:
            raise typer.BadParameter(f"--config: setting {number} is no NAME=VALUE: {name[:40]!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}
