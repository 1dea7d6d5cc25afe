"""Lists the commands, and loads the module of one when it is called.

What commands need takes longer to load than most of them to run: ``pkray --help`` reads no more
than the names and sentences here. A test compares them with the commands' own.
"""

import gc
import importlib
from functools import cached_property
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Entry(NamedTuple):
    """One command, or a group of them, as ``pkray --help`` lists it.

    Attributes:
        module: of `pkray.cli.commands`.
        member: its function or `typer.Typer`; default the command's name.
    """

    name: str
    module: str
    about: str
    member: str = ""

    def load(self) -> Any:
        """Load the module and make the command that Typer runs."""
        module = importlib.import_module(f"pkray.cli.commands.{self.module}")
        member = getattr(module, self.member or self.name.replace("-", "_"))
        if isinstance(member, typer.Typer):
            return typer.main.get_group(member)
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(member)
        return typer.main.get_command(alone)


ENTRIES = (
    Entry("create", "tables", "Create a table."),
    Entry("tables", "tables", "List the tables."),
    Entry("describe", "tables", "Show a table's columns, keys and options."),
    Entry("rename", "tables", "Give a table another name, on a disk; end its writers first."),
    Entry("drop", "tables", "Delete a table and its files, for good."),
    Entry("options", "table_options", "List the options that tables have, as --option takes them."),
    Entry(
        "upsert", "rows", "Insert rows or replace those of the same key, from files, in one commit."
    ),
    Entry(
        "delete",
        "rows",
        "Delete rows in one commit: of keys, which may bring their sequence.field, or of a filter.",
    ),
    Entry(
        "scan",
        "rows",
        "Print the committed rows, of a system table such as 'shop.orders$files' too.",
    ),
    Entry("lookup", "rows", "Print the rows of some keys; keys that are not there are left out."),
    Entry("sql", "sql", "Run SQL; without any, a shell in which statements end with a semicolon."),
    Entry("snapshots", "system", "List the snapshots, oldest first."),
    Entry("files", "system", "List the data files of a snapshot."),
    Entry(
        "system",
        "system",
        "Print what a table holds of itself: its snapshots, files, options and more.",
    ),
    Entry("changelog", "changes", "Print what changed, snapshot by snapshot."),
    Entry("compact", "compaction", "Merge sorted runs."),
    Entry(
        "rollback",
        "history",
        "Go back to an older snapshot: later snapshots and tags are removed for good.",
    ),
    Entry(
        "expire",
        "maintenance",
        "Remove old snapshots and the files only they name; by default as the table's options say.",
    ),
    Entry(
        "orphans",
        "maintenance",
        "Delete files that nothing of the table names; by default those older than a day.",
    ),
    Entry("drop-partition", "maintenance", "Remove all rows of partitions."),
    Entry(
        "expire-partitions",
        "maintenance",
        "Drop the partitions older than the table's partition.expiration-time.",
    ),
    Entry(
        "rescale",
        "maintenance",
        "Spread the rows over another number of buckets; safe while others write or if repeated.",
    ),
    Entry("alter", "alter", "Change a table's columns, options and comments.", "app"),
    Entry("database", "tables", "Make and drop databases.", "database_app"),
    Entry("tag", "history", "Name snapshots, so that they do not expire.", "tag_app"),
    Entry("branch", "history", "Keep histories next to a table's own.", "branch_app"),
    Entry(
        "consumers", "maintenance", "Readers of the changes that keep their place.", "consumers_app"
    ),
    Entry(
        "metrics",
        "metrics",
        "Print the metrics as Prometheus reads them; with --json a line each series.",
    ),
    Entry(
        "serve",
        "serve",
        "Serve metrics at /metrics and the console at /; print the address, with a token.",
    ),
    Entry(
        "ui",
        "serve",
        "Open the console on this machine, of a warehouse or of a file of `pkray diagnose`.",
    ),
    Entry("demo", "demo", "Show a small stream, three queries and the console, until Ctrl-C."),
    Entry(
        "diagnose",
        "diagnose",
        "Write metrics, plans, layouts, states and logs, without rows and secrets, to one file.",
    ),
    Entry("service", "service", "The processes that serve the tables on Ray.", "service_app"),
    Entry("backup", "backup", "Copies of the warehouse, in a store of their own.", "backup_app"),
    Entry("cdc", "cdc", "Databases whose changes come to tables.", "cdc_app"),
    Entry("kafka", "kafka", "Topics into tables, and tables into topics.", "kafka_app"),
    Entry("query", "query", "Continuous queries.", "query_app"),
)


class Commands(TyperGroup):
    """The commands of `ENTRIES`, each of which loads itself when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for entry in ENTRIES:
            self.add_command(_Unloaded(entry))


class _Unloaded(TyperCommand):
    """Stands in the list for a command, which takes its place when it is called or completed."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.name, help=entry.about)
        self._entry = entry

    @cached_property
    def loaded(self) -> Any:
        return self._entry.load()

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        context = self.loaded.make_context(*arguments, **settings)
        if not gc.isenabled():  # see `app.main`
            gc.freeze()
            gc.enable()
        return context
