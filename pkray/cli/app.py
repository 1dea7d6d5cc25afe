"""The program `pkray`: its commands, compaction, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import pyarrow as pa
import typer

import pkray
from pkray.cli.commands import (
    alter,
    changes,
    compaction,
    history,
    maintenance,
    rows,
    sql,
    system,
    table_options,
    tables,
    upgrades,
)
from pkray.cli.wording import in_options
from pkray.errors import PkrayError

app = typer.Typer(
    name="pkray",
    help="Primary-key tables in Apache Paimon's format.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
for _command in (
    tables.create,
    tables.tables,
    tables.describe,
    tables.rename,
    tables.drop,
    table_options.options,
    rows.upsert,
    rows.delete,
    rows.scan,
    rows.lookup,
    sql.sql,
    system.snapshots,
    system.files,
    system.system,
    changes.changelog,
    compaction.compact,
    history.rollback,
    maintenance.expire,
    maintenance.orphans,
    maintenance.drop_partition,
    maintenance.expire_partitions,
    maintenance.rescale,
):
    app.command()(_command)
app.add_typer(alter.app)
app.add_typer(tables.database_app)
app.add_typer(history.tag_app)
app.add_typer(history.branch_app)
app.add_typer(maintenance.consumers_app)
app.add_typer(upgrades.app)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pkray {pkray.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the stack trace of an error."),
) -> None:
    """Work with primary-key tables in Apache Paimon's format."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: 0 done, 1 refused or failed, 2 called wrongly."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        code = app([word for word in given if word != "--debug"], standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except typer.TyperException as error:
        message = error.format_message()
        _fail(message, error.exit_code) if message else sys.exit(error.exit_code)
    except (PkrayError, pa.ArrowException, OSError) as error:
        if debug:
            raise
        _fail(in_options(error) if isinstance(error, PkrayError) else str(error), 1)
    except Exception as error:
        if debug:
            raise
        _fail(f"{type(error).__name__}: {error} (--debug shows where)", 1)
    sys.exit(code or 0)


def _fail(message: str, code: int) -> NoReturn:
    line = " ".join(message.split())
    print(f"error: {line}", file=sys.stderr)
    sys.exit(code)
