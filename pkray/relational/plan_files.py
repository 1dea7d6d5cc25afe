"""Files of compiled plans: where they may lie, what they hold, bound to what is there now."""

import json
import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from pkray.errors import MissingFileError, OptionError, QueryError, StorageError, TableExistsError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import is_known
from pkray.relational.plan.json.reader import PlanNames, from_json
from pkray.relational.plan.nodes import Node
from pkray.relational.plan.scans import scan_of
from pkray.relational.session import Environment, QuerySession
from pkray.relational.sources import Source
from pkray.scan.moment import Moment
from pkray.storage.opening import open_store

PLAN_PATHS = "sql.plan-paths"
"""The option that lists, by commas, the folders where statements may write and read plans."""
MOST_BYTES = 64 << 20
"""Most bytes of a plan's file that are read: a plan of 10,000 nodes has some 20 MB."""


def roots_of(
    session: QuerySession, document: Any, others: Mapping[str, Source] | None = None
) -> tuple[Node, ...]:
    """Bind what a file holds to the tables and functions of a catalog.

    Args:
        others: sources that are no tables, by their names.

    Raises:
        PlanError: ``faults`` lists each fault with its JSON pointer.
    """
    dialect = document.get("dialect") if isinstance(document, dict) else None
    names = session.environment(Dialect.FLINK if dialect == "flink" else Dialect.SPARK)

    def find(name: str, options: Mapping[str, str], at: Moment) -> Source:
        other = (others or {}).get(name)
        return _source(names, name, options, at) if other is None else other

    return from_json(document, PlanNames(find, names.udf, is_known))


def _source(names: Environment, name: str, options: Mapping[str, str], at: Moment) -> Source:
    node = names.relation(tuple(name.split(".")), options, at)
    scan = scan_of(node)
    if scan is None or (scan is not node and scan.source.name != _full_name(names, name)):
        raise QueryError(f"{name} is a view now, not a table: compile the plan again", table=name)
    return scan.source


def _full_name(names: Environment, name: str) -> str:
    parts = tuple(name.split("."))
    return name if names.session is None else names.session.full_name(parts, names.database)


def write_plan(document: Mapping[str, Any], path: str, *, overwrite: bool) -> None:
    """Write a document to a file, whole or not at all."""
    folder, name = _divided(path)
    store, data = open_store(folder), json.dumps(document, indent=2).encode() + b"\n"
    if overwrite:
        store.write(name, data)
    elif not store.create(name, data):
        raise TableExistsError(
            f"the plan {path} is there already: write IF NOT EXISTS, give overwrite=True, or "
            "choose another name",
            path=path,
        )


def read_plan(path: str) -> bytes:
    """Read a plan's file."""
    folder, name = _divided(path)
    store = open_store(folder)
    if not store.exists(name):
        raise MissingFileError(f"there is no plan {path}: compile it first", path=path)
    if store.size(name) > MOST_BYTES:
        raise StorageError(f"{path} is larger than {MOST_BYTES >> 20} MB: it is no plan", path=path)
    return store.read(name)


def plan_exists(path: str) -> bool:
    """Whether there is a file of this name."""
    folder, name = _divided(path)
    return open_store(folder).exists(name)


def check_plan_path(path: str, options: Mapping[str, str]) -> None:
    """Check that a statement may write or read a plan there.

    Raises:
        OptionError: the option ``sql.plan-paths`` names other folders.
    """
    allowed = [each.strip() for each in options.get(PLAN_PATHS, "").split(",") if each.strip()]
    if not allowed:
        return
    place = _normal(path)
    if not any(place.is_relative_to(_normal(each)) for each in allowed):
        raise OptionError(
            f"the plan {path} lies outside of {PLAN_PATHS} ({', '.join(allowed)})",
            key=PLAN_PATHS,
            path=path,
        )


def _normal(path: str) -> PurePosixPath:
    if "://" in path and not path.startswith("file://"):
        scheme, rest = path.split("://", 1)
        return PurePosixPath(f"/{scheme}:") / os.path.normpath(f"/{rest}").lstrip("/")
    return PurePosixPath(os.path.realpath(path.removeprefix("file://")))


def _divided(path: str) -> tuple[str, str]:
    """Divide a path into its folder and the file's name.

    Raises:
        OptionError: it ends in no name.
    """
    folder, slash, name = path.rpartition("/")
    if not name or name in (".", ".."):
        raise OptionError(f"{path!r} names no file: write a path such as plans/totals.json")
    return (folder + slash) or ".", name
