"""Completes the word that is written in a shell: names of tables, databases and options.

Only folders of this machine are looked at, and only listed: a key press neither asks an object
store nor opens a table.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from pkray.options import catalogue

_SUFFIX = ".db"
_PLAIN = re.compile(r"[\w.-]+")
"""Names that a shell takes as they are: others are not offered, as it would read them."""
_DEFAULT = "./warehouse"


def databases(context: typer.Context, incomplete: str) -> list[str]:
    """List the warehouse's databases that begin so."""
    return [name for name, _ in _databases(context) if name.startswith(incomplete)]


def tables(context: typer.Context, incomplete: str) -> list[str]:
    """List the warehouse's tables that begin so, as ``database.table``."""
    return sorted(
        f"{database}.{table.name}"
        for database, folder in _databases(context)
        if incomplete.startswith(f"{database}.") or database.startswith(incomplete)
        for table in _folders(folder)
        if f"{database}.{table.name}".startswith(incomplete) and (table / "schema").is_dir()
    )


def options(incomplete: str) -> list[str]:
    """List the table options that begin so, up to their value."""
    return [f"{each.key}=" for each in catalogue() if each.key.startswith(incomplete)]


def _databases(context: typer.Context) -> Iterator[tuple[str, Path]]:
    given = context.params.get("warehouse") or os.environ.get("PKRAY_WAREHOUSE") or _DEFAULT
    if "://" not in given:
        for folder in _folders(Path(given)):
            if folder.name.endswith(_SUFFIX):
                yield folder.name.removesuffix(_SUFFIX), folder


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(c for c in parent.iterdir() if _PLAIN.fullmatch(c.name) and c.is_dir())
    except (OSError, ValueError):  # not there, or not to be read: nothing is offered
        return []
