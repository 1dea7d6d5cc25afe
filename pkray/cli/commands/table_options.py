"""The command ``pkray options``: what a table can be set to do."""

from typing import Annotated, Any

import pyarrow as pa
import typer

from pkray.cli import output
from pkray.cli.arguments import Json
from pkray.options import catalogue, field_catalogue
from pkray.options.option import Option

_UNITS = {
    "size": ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")),
    "duration": ((3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")),
}


def options(
    word: Annotated[
        str, typer.Argument(metavar="WORD", help="Only those with it in their key or meaning.")
    ] = "",
    as_json: Json = False,
) -> None:
    """List the options that tables have, as --option takes them."""
    found = [
        {
            "option": each.key,
            "default": write_default(each),
            "meaning": each.doc,
            "takes": " or ".join(each.only) or each.kind.allowed,
        }
        for each in (*catalogue(), *field_catalogue())
        if word.lower() in f"{each.key} {each.doc}".lower()
    ]
    columns = [(name, pa.string()) for name in ("option", "default", "meaning", "takes")]
    if as_json:
        output.table(pa.Table.from_pylist(found, pa.schema(columns)), as_json)
        return
    for each in found:
        default = "" if each["default"] is None else f" = {each['default']}"
        output.entry(f"{each['option']}{default}", str(each["meaning"]), f"Takes {each['takes']}.")
    output.count(len(found), "option")


def write_default(option: Option) -> str | None:
    """Write the default as a user would."""
    value: Any = option.default
    if value is None or value == ():
        return None
    if isinstance(value, bool):
        return str(value).lower()
    for size, unit in _UNITS.get(option.kind.name, ()):
        if value and value % size == 0:
            return f"{value // size} {unit}"
    return str(value)
