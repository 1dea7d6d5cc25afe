"""Run pkray from a command line: ``pkray``, or ``python -m pkray``.

``commands`` has a module a group (``tables``, ``rows``, ``alter`` …); ``app`` brings them together.
Commands do what the Python API does and nothing else: they parse (``arguments``,
``row_files``), call a table, and print tables for people or JSON lines for programs (``output``).
Errors come out in the words of the command line (``wording``). Rows pass through batch by batch.
"""

from pkray.cli.app import main

__all__ = ["main"]
