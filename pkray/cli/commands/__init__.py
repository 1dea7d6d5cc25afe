"""The commands of the command line: a module a group.

::

    app ──▶ tables, rows, sql, history … ──▶ the Python API ──▶ tables for people, JSON lines

- **command**: a function whose parameters Typer reads off the command line. It opens the warehouse
  that it was given, calls the Python API once, and prints what came back.
- What commands share stands above: arguments, files of rows, output, the SQL shell.
"""
