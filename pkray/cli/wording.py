"""Errors in the words of the command line."""

import re

from pkray.errors import PkrayError

_OPTIONS = {
    "primary_keys": "--primary-key",
    "snapshot_id": "--snapshot",
    "from_snapshot": "--from",
    "to_snapshot": "--to",
    "until_snapshot": "--to",
    "next_snapshot_id": "--next",
    "buckets": "BUCKETS",
    "poll_interval": "--poll",
    "name": "the name",
    "options": "--option",
    "keys": "--key",
    "schema": "--column",
    "text": "SQL",
    "consumer_id": "--consumer",
}
"""Options that have other names than the arguments in Python."""


def said(error: Exception) -> str:
    """Write what a command failed with."""
    if isinstance(error, PkrayError):
        return in_options(error)
    is_plain = isinstance(error, OSError) or type(error).__module__.startswith("pyarrow.")
    return str(error) if is_plain else f"{type(error).__name__}: {error} (--debug shows where)"


def in_options(error: PkrayError) -> str:
    """Write the error's message with options in place of the arguments that it says it names."""
    message = str(error)
    for argument in error.values.get("arguments", ()):
        words = rf"(?<![\w'\"]){re.escape(argument)}(?!\w)"
        option = _option(argument).replace("\\", r"\\")
        message = re.sub(words, option, message)
    return message


def _option(argument: str) -> str:
    name, _, value = argument.partition("=")
    option = _OPTIONS.get(name) or "--" + name.replace("_", "-")
    return option if value in ("", "True") else f"{option} {value}"
