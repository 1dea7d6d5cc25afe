"""The commands ``pkray tag …``, ``pkray branch …`` and ``pkray rollback``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pkray.catalog import Catalog, connect
from pkray.cli import arguments, output
from pkray.cli.arguments import (
    WAREHOUSE,
    Json,
    Ray,
    SnapshotId,
    Storage,
    TableName,
    TagName,
    Warehouse,
)

tag_app = typer.Typer(
    name="tag", help="Name snapshots, so that they do not expire.", no_args_is_help=True
)
branch_app = typer.Typer(
    name="branch", help="Keep histories beside a table's own.", no_args_is_help=True
)

Tag = Annotated[str, typer.Argument(metavar="TAG", help="The tag's name.")]
Branch = Annotated[str, typer.Argument(metavar="BRANCH", help="The branch's name.")]
Limited = Annotated[
    str | None,
    typer.Option("--time-retained", metavar="TIME", help="How long to keep it, such as '7 d'."),
]

_TAGS = {
    "tag": "tag_name",
    "snapshot": "snapshot_id",
    "committed": "commit_time",
    "rows": "record_count",
    "made": "create_time",
    "retained": "time_retained",
}


@tag_app.command("create")
def create_tag(
    table: TableName,
    tag: Tag,
    snapshot: SnapshotId = None,
    time_retained: Limited = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists")] = False,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Name a snapshot, by default the newest."""
    with _connect(warehouse, storage) as catalog:
        tags = catalog.load_table(table).tags
        made = tags.create(tag, snapshot, time_retained, if_not_exists)
    output.record({"tag": made.name, "snapshot": made.snapshot.id}, as_json)


@tag_app.command("delete")
def delete_tag(
    table: TableName,
    tag: Tag,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Remove a tag; what only it kept goes too."""
    with _connect(warehouse, storage) as catalog:
        catalog.load_table(table).tags.delete(tag)
    output.record({"deleted": tag}, as_json)


@tag_app.command("list")
def list_tags(
    table: TableName,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """List the tags."""
    with _connect(warehouse, storage) as catalog:
        output.table(catalog.load_table(table).tags.list(), as_json, _TAGS)


@branch_app.command("create")
def create_branch(
    table: TableName,
    branch: Branch,
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="NAME", help="What it begins with; default no rows."),
    ] = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Make a branch: read and write it as the table 'TABLE$branch_BRANCH'."""
    with _connect(warehouse, storage) as catalog:
        source = catalog.load_table(table)
        source.branches.create(branch, tag)
        made = source.branch(branch)
        newest = made.latest_snapshot()
    output.record({"table": made.name, "snapshot": newest.id if newest else None}, as_json)


@branch_app.command("delete")
def delete_branch(
    table: TableName,
    branch: Branch,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Remove a branch and the files that only it named."""
    with _connect(warehouse, storage, ray) as catalog:
        catalog.load_table(table).branches.delete(branch)
    output.record({"deleted": branch}, as_json)


@branch_app.command("fast-forward")
def fast_forward_branch(
    table: TableName,
    branch: Branch,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Make the table what a branch is; what the table committed since the branch began is gone."""
    with _connect(warehouse, storage) as catalog:
        newest = catalog.load_table(table).branches.fast_forward(branch)
    output.record({"table": table, "snapshot": newest.id}, as_json)


@branch_app.command("list")
def list_branches(
    table: TableName,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """List the branches."""
    with _connect(warehouse, storage) as catalog:
        output.table(catalog.load_table(table).branches.list(), as_json)


def rollback(
    table: TableName,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Go back to an older snapshot: later snapshots and tags are removed for good."""
    with _connect(warehouse, storage) as catalog, output.waiting("rolling back"):
        report = catalog.load_table(table).rollback_to(snapshot, tag)
    said = {
        "snapshot": report.snapshot.id,
        "removed_snapshots": list(report.removed_snapshots),
        "removed_tags": list(report.removed_tags),
        "deleted_files": report.deleted_files,
    }
    output.record(said, as_json)


def _connect(warehouse: str, storage: list[str] | None, ray: str | None = None) -> Catalog:
    options: dict[str, Any] = dict(arguments.pairs(storage, "--storage"))
    if ray is None:
        return connect(warehouse, **options)
    return connect(warehouse, "ray", runtime_options={"address": ray}, **options)
