"""The program `pkray`: its options, and what becomes of errors."""

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

import pkray
from pkray.cli.loading import Commands
from pkray.cli.wording import said

app = typer.Typer(
    name="pkray",
    cls=Commands,
    help="Primary-key tables in Apache Paimon's format.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


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
    if arguments is None:
        # Modules and functions stay: looking for garbage among them, while a command loads, runs
        # and ends, takes a quarter of the time. Only what a command makes is looked through.
        gc.disable()
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
    except Exception as error:
        if debug:
            raise
        _fail(said(error), 1)
    sys.exit(code or 0)


def _fail(message: str, code: int) -> NoReturn:
    line = " ".join(message.split())
    print(f"error: {line}", file=sys.stderr)
    sys.exit(code)
