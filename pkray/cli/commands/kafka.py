"""The commands ``pkray kafka …``: topics whose events come to tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pkray.api.catalog import Catalog
from pkray.cli import output
from pkray.cli.arguments import AvroSchema, ErrorsTable, Json, Metadata, TableName
from pkray.cli.commands.rows import avro_schema_files, errors_table, metadata_of
from pkray.cli.warehouse import on_service
from pkray.kafka.topic_source import read as topic_source

kafka_app = typer.Typer(
    name="kafka", help="Topics whose events come to tables.", no_args_is_help=True
)


@kafka_app.command("read")
@on_service
def read(
    catalog: Catalog,
    table: TableName,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    servers: Annotated[str, typer.Option(metavar="HOST:PORT,…", help="Its brokers.")],
    change_format: Annotated[
        str,
        typer.Option(
            "--format", metavar="debezium-json|…", help="How the messages' values are written."
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(help="A file of librdkafka's settings, a NAME=VALUE a line, and passwords."),
    ] = None,
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
    try:
        with output.waiting(f"reading {topic}"):
            found.run(once=once)
    except KeyboardInterrupt:  # the usual end
        pass
    bad = {} if errors is None else {"bad": found.bad}
    output.record({"rows": found.rows, **bad}, as_json)


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
