"""The commands ``pkray tag …``, ``pkray branch …`` and ``pkray rollback``."""

from typing import Annotated

import typer

from pkray.api.catalog import Catalog
from pkray.cli import output
from pkray.cli.arguments import IfNotExists, Json, SnapshotId, TableName, TagName
from pkray.cli.warehouse import on_service, on_warehouse

tag_app = typer.Typer(
    name="tag", help="Name snapshots, so that they do not expire.", no_args_is_help=True
)
branch_app = typer.Typer(
    name="branch", help="Keep histories next to a table's own.", no_args_is_help=True
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
@on_warehouse
def create_tag(
    catalog: Catalog,
    table: TableName,
    tag: Tag,
    snapshot: SnapshotId = None,
    time_retained: Limited = None,
    if_not_exists: IfNotExists = False,
    as_json: Json = False,
) -> None:
    """Name a snapshot, by default the newest."""
    tags = catalog.load_table(table).tags
    made = tags.create(tag, snapshot, time_retained, if_not_exists)
    output.record({"tag": made.name, "snapshot": made.snapshot.id}, as_json)


@tag_app.command("delete")
@on_warehouse
def delete_tag(catalog: Catalog, table: TableName, tag: Tag, as_json: Json = False) -> None:
    """Remove a tag; what only it kept goes too."""
    catalog.load_table(table).tags.delete(tag)
    output.record({"deleted": tag}, as_json)


@tag_app.command("list")
@on_warehouse
def list_tags(catalog: Catalog, table: TableName, as_json: Json = False) -> None:
    """List the tags."""
    output.table(catalog.load_table(table).tags.list(), as_json, _TAGS)


@branch_app.command("create")
@on_warehouse
def create_branch(
    catalog: Catalog,
    table: TableName,
    branch: Branch,
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="NAME", help="What it begins with; default no rows."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a branch: read and write it as the table 'TABLE$branch_BRANCH'."""
    source = catalog.load_table(table)
    source.branches.create(branch, tag)
    made = source.branch(branch)
    newest = made.latest_snapshot()
    output.record({"table": made.name, "snapshot": newest.id if newest else None}, as_json)


@branch_app.command("delete")
@on_service
def delete_branch(
    catalog: Catalog, table: TableName, branch: Branch, as_json: Json = False
) -> None:
    """Remove a branch and the files that only it named."""
    catalog.load_table(table).branches.delete(branch)
    output.record({"deleted": branch}, as_json)


@branch_app.command("fast-forward")
@on_warehouse
def fast_forward_branch(
    catalog: Catalog, table: TableName, branch: Branch, as_json: Json = False
) -> None:
    """Make the table what a branch is; what the table committed since the branch began is gone."""
    newest = catalog.load_table(table).branches.fast_forward(branch)
    output.record({"table": table, "snapshot": newest.id}, as_json)


@branch_app.command("list")
@on_warehouse
def list_branches(catalog: Catalog, table: TableName, as_json: Json = False) -> None:
    """List the branches."""
    output.table(catalog.load_table(table).branches.list(), as_json)


@on_warehouse
def rollback(
    catalog: Catalog,
    table: TableName,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    as_json: Json = False,
) -> None:
    """Go back to an older snapshot: later snapshots and tags are removed for good."""
    with output.waiting("rolling back"):
        report = catalog.load_table(table).rollback_to(snapshot, tag)
    said = {
        "snapshot": report.snapshot.id,
        "removed_snapshots": list(report.removed_snapshots),
        "removed_tags": list(report.removed_tags),
        "deleted_files": report.deleted_files,
    }
    output.record(said, as_json)
