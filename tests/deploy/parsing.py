"""Reads command lines as the programs do, without running them."""

import warnings
from contextlib import suppress
from typing import Any

from pkray.cli.app import app


def parse(words: list[str]) -> None:
    """Have pkray's command line read words.

    Raises:
        Exception: of the command line, where it does not understand them.
    """
    import typer.main

    with suppress(typer.Exit):  # such as --version, which is done while it is read
        _follow(typer.main.get_command(app), words)


def parse_ray(words: list[str]) -> None:
    """Have Ray's command line read words.

    Raises:
        Exception: of the command line, where it does not understand them.
    """
    with warnings.catch_warnings(action="ignore"):
        from ray.scripts.scripts import cli

    _follow(cli, words)


def _follow(command: Any, words: list[str]) -> None:
    name, *rest = words
    while True:
        context = command.make_context(name, rest)
        command = context.command
        if not hasattr(command, "resolve_command"):
            return
        given = [*getattr(context, "_protected_args", []), *context.args]
        name, command, rest = command.resolve_command(context, given)
