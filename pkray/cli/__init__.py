"""Run pkray from a command line: ``pkray``, or ``python -m pkray``.

A module a group of commands (``tables``, ``rows``, ``alter``, ``maintenance`` …), which ``app``
brings together. Commands do what the Python API does and nothing else: they parse (``arguments``,
``row_files``), call a table, and print tables for people or JSON lines for programs (``output``).
Errors come out in the words of the command line (``wording``). Rows pass through batch by batch.
"""

from __future__ import annotations

from pkray.cli.app import main

__all__ = ["main"]
