"""Defines options that several commands share, and reads the texts they are given."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import pyarrow as pa
import typer

from pkray.cli import completion
from pkray.cli.json_rows import once
from pkray.errors import InputError
from pkray.scan.literals import fit, literal, mismatch
from pkray.scan.moment import Moment
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import BINARIES, DataField
from pkray.service.settings import DEFAULT_WAREHOUSE

Warehouse = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        "-w",
        envvar="PKRAY_WAREHOUSE",
        help="The warehouse: a folder, or an object store's URL.",
        show_default=DEFAULT_WAREHOUSE,
    ),
]
Place = Annotated[
    str | None,
    typer.Argument(metavar="[WAREHOUSE]", help="Instead of --warehouse.", show_default=False),
]
Storage = Annotated[
    list[str] | None,
    typer.Option(
        "--storage", metavar="KEY=VALUE", help="An option of the object store, such as endpoint."
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        envvar="PKRAY_RAY",
        metavar="ADDRESS",
        help="Go through the service on this Ray cluster ('auto': the running one).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="database.table, or a branch: 'database.table$branch_b'.",
        autocompletion=completion.tables,
    ),
]
IfNotExists = Annotated[
    bool, typer.Option("--if-not-exists", help="Leave what is there as it is, without an error.")
]
IfExists = Annotated[
    bool, typer.Option("--if-exists", help="Without an error where there is nothing.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", "-c", metavar="A,B", help="The columns to print, comma-separated."),
]
SnapshotId = Annotated[
    int | None, typer.Option("--snapshot", metavar="ID", help="An older snapshot.", min=1)
]
TagName = Annotated[
    str | None, typer.Option("--tag", metavar="NAME", help="The snapshot of a tag.")
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TIME",
        help="The newest snapshot at or before: '2026-01-31 12:00' or epoch milliseconds.",
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="COLUMN=MEMBER",
        help="Changes: a column that is a member of the envelope, such as lsn=source.lsn.",
    ),
]
AvroSchema = Annotated[
    list[str] | None,
    typer.Option(
        "--avro-schema",
        metavar="[ID=]FILE",
        help="Messages in Avro: the schema of an id, or of all of them; repeat it.",
    ),
]
ErrorsTable = Annotated[
    str | None,
    typer.Option(
        "--errors",
        metavar="TABLE",
        help="Changes: a table that takes bad records, made if need be; '$errors': the one "
        "beside this table. Default: stop.",
    ),
]


def moment(snapshot: int | None, tag: str | None, timestamp: str | None) -> Moment:
    """Make one of what --snapshot, --tag and --timestamp say."""
    return Moment.from_arguments(snapshot, tag, time(timestamp))


def time(text: str | None) -> int | str | None:
    """Return epoch milliseconds where a text is a number, else the text."""
    return int(text) if text is not None and text.strip().isdecimal() else text


def names(texts: Iterable[str] | None) -> list[str] | None:
    """Split names that are comma-separated in each text; None without any."""
    found = [name.strip() for text in texts or () for name in text.split(",")]
    return [name for name in found if name] or None


def pairs(texts: Iterable[str] | None, option: str, *, secret: bool = False) -> dict[str, str]:
    """Parse KEY=VALUE texts.

    Args:
        secret: show none of them in errors.
    """
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            given = "" if secret else f", not {text!r}"
            raise typer.BadParameter(f"{option} takes KEY=VALUE{given}")
        if key.strip() in found:
            given = "a key" if secret else repr(key.strip())
            raise typer.BadParameter(f"{option} gives {given} twice: give it once")
        found[key.strip()] = value.strip()
    return found


def columns(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Parse column definitions: a name, or one in backticks, and a type."""
    found = []
    for text in texts:
        text = text.strip()
        if text.startswith("`"):
            name, _, data_type = text[1:].partition("`")
        else:
            name, _, data_type = text.partition(" ")
        if not name or not data_type.strip():
            raise typer.BadParameter(f'--column takes "NAME TYPE", not {text!r}')
        found.append((name, data_type.strip()))
    return found


def keys(texts: Sequence[str], schema: TableSchema, *, as_first: bool = False) -> pa.Table:
    """Read keys as columns, from texts such as ``id=1,day=2024-02-29`` and ``{"id": 1}``.

    Args:
        as_first: all have the columns of the first one.

    Raises:
        InputError: a key that lacks a column, has another, or a value that is none of its type.
    """
    rows = [_key(text) for text in texts]
    wanted: Sequence[str] = list(rows[0]) if as_first and rows else schema.primary_keys
    for text, row in zip(texts, rows, strict=True):
        if set(row) != set(wanted):
            raise InputError(
                f"key {text!r} has {', '.join(row) or 'nothing'}: it needs {', '.join(wanted)}",
                key=text,
            )
    arrays = []
    for name in wanted:
        field = schema.field(name)
        values = [_value(row[name], field) for row in rows]
        arrays.append(pa.array(values, field.type.arrow))
    return pa.Table.from_arrays(arrays, names=list(wanted))


def _key(text: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        return dict(pairs(text.split(","), "--key"))
    try:
        return dict(json.loads(text, object_pairs_hook=once))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"--key {text!r} is not JSON: {error}") from None


def _value(value: Any, field: DataField) -> pa.Scalar:
    given = literal(value)
    if isinstance(given, str):
        if field.type.root == "BOOLEAN" and given.lower() in ("true", "false"):
            given = given.lower() == "true"
        elif field.type.root in BINARIES:
            try:
                given = bytes.fromhex(given)
            except ValueError:
                raise mismatch(given, field) from None
    if given is None:
        raise InputError(f"key column {field.name!r} cannot be null", column=field.name)
    fitted = fit(given, field)
    if not fitted.exact:
        raise InputError(
            f"key column {field.name!r} is {field.type}, which does not hold {value!r}",
            column=field.name,
            value=value,
        )
    return fitted.value
