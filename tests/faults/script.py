"""A job of many steps, each of which may be done again after the process was killed in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import pkray
from pkray.format.snapshot import APPEND, OVERWRITE

NAME = "shop.orders"
FOREVER = 2**42
"""A moment that all files are older than."""

Step = Callable[[pkray.Catalog], None]
Rows = list[dict[str, Any]]
State = dict[tuple[Any, ...], tuple[Any, ...]]
"""Values by key."""


@dataclass(frozen=True)
class Script:
    """Steps in order; each is safe to do again."""

    name: str
    steps: tuple[Step, ...]


def create(partitioned: bool = True, **options: str) -> Step:
    columns = pa.schema([("k", pa.int64()), ("dt", pa.string()), ("v", pa.int64())])
    keys = ["k", "dt"] if partitioned else ["k"]
    settings = {name.replace("_", "-"): value for name, value in options.items()}

    def step(catalog: pkray.Catalog) -> None:
        catalog.create_table(
            NAME,
            columns,
            keys,
            ["dt"] if partitioned else [],
            {"bucket": "1", "snapshot.num-retained.max": "1000"} | settings,
            if_not_exists=True,
        )

    return step


def commit(
    user: str,
    identifier: int,
    rows: Mapping[tuple[int, str], int],
    deleted: tuple[tuple[int, str], ...] = (),
    **extra: Any,
) -> Step:
    """Values by key, and deleted keys."""

    def step(catalog: pkray.Catalog) -> None:
        with catalog.load_table(NAME).open_writer(user) as writer:
            writer.upsert([{"k": k, "dt": dt, "v": v} | extra for (k, dt), v in rows.items()])
            if deleted:
                writer.delete([{"k": k, "dt": dt} for k, dt in deleted])
            writer.commit(identifier)

    return step


def on_table(work: Callable[[pkray.Table], Any]) -> Step:
    return lambda catalog: work(catalog.load_table(NAME))


def compact(full: bool) -> Step:
    return on_table(lambda table: table.compact(full=full))


def tag(name: str) -> Step:
    return on_table(lambda table: table.tags.create(name, if_not_exists=True))


def delete_tag(name: str) -> Step:
    def work(table: pkray.Table) -> None:
        if name in table.tags.list()["tag_name"].to_pylist():
            table.tags.delete(name)

    return on_table(work)


def expire(most: int) -> Step:
    return on_table(lambda table: table.expire_snapshots(most, 1, FOREVER))


def clean() -> Step:
    """Orphan cleaning while nothing else runs: whatever is unnamed goes, however young."""
    return on_table(lambda table: table.remove_orphan_files(FOREVER))


def drop_partition(dt: str) -> Step:
    def work(table: pkray.Table) -> None:
        if dt in table.to_arrow(["dt"])["dt"].to_pylist():
            table.drop_partitions([{"dt": dt}])

    return on_table(work)


def add_column(name: str) -> Step:
    def work(table: pkray.Table) -> None:
        if name not in table.arrow_schema.names:
            table.alter.add_column(name, "INT")

    return on_table(work)


def branch(name: str, tag: str) -> Step:
    def work(table: pkray.Table) -> None:
        if name not in table.branches.list()["branch_name"].to_pylist():
            table.branches.create(name, tag=tag)

    return on_table(work)


LOOKUP = Script(
    "lookup changelog",
    (
        create(changelog_producer="lookup", write_buffer_size="1 mb"),
        commit("a", 0, {(n, dt): n for n in range(4) for dt in "xy"}),
        commit("a", 1, {(1, "x"): 11, (2, "y"): 12}, deleted=((3, "x"),)),
        commit("b", 0, {(1, "x"): 21, (5, "y"): 25}),
        tag("v1"),
        commit("a", 2, {(0, "x"): 30, (5, "y"): 35}, deleted=((2, "y"),)),
        compact(full=True),
        on_table(lambda table: table.consumers.reset("reader", 4)),
        add_column("note"),
        commit("b", 1, {(7, "x"): 47, (0, "y"): 40}, note=1),
        expire(3),
        drop_partition("y"),
        commit("a", 3, {(1, "x"): 51, (8, "y"): 58}, note=2),
        on_table(lambda table: table.consumers.reset("reader", 6)),
        expire(2),
        clean(),
    ),
)
LOOKUP_IN_SHORT = Script(
    "lookup changelog in short",
    (
        create(changelog_producer="lookup", write_buffer_size="1 mb"),
        commit("a", 0, {(n, dt): n for n in range(3) for dt in "xy"}),
        tag("v1"),
        commit("a", 1, {(1, "x"): 11, (5, "x"): 15}, deleted=((2, "x"),)),
        compact(full=True),
        add_column("note"),
        on_table(lambda table: table.consumers.reset("reader", 5)),
        commit("b", 0, {(1, "x"): 21, (0, "y"): 20}, note=1),
        expire(2),
        drop_partition("y"),
        clean(),
    ),
)
"""Each kind of operation on each kind of file that `LOOKUP` has."""
DELETION_VECTORS = Script(
    "deletion vectors in dynamic buckets",
    (
        create(
            bucket="-1",
            partitioned=False,
            **{"deletion-vectors.enabled": "true", "dynamic-bucket.target-row-num": "3"},
        ),
        commit("a", 0, {(n, "x"): n for n in range(5)}),
        commit("a", 1, {(n, "y"): 10 + n for n in range(3, 7)}, deleted=((0, ""),)),
        tag("v1"),
        branch("side", "v1"),
        commit("b", 0, {(1, "z"): 21, (9, "z"): 29}),
        expire(1),
        compact(full=True),
        clean(),
    ),
)
WRITE_ONLY = Script(
    "input changelog, written apart from compaction",
    (
        create(
            changelog_producer="input",
            write_only="true",
            **{"num-sorted-run.compaction-trigger": "3", "changelog.num-retained.max": "100"},
        ),
        commit("a", 0, {(n, dt): n for n in range(3) for dt in "xy"}),
        commit("b", 0, {(1, "x"): 11}, deleted=((2, "x"),)),
        commit("a", 1, {(1, "x"): 21, (0, "y"): 22}),
        compact(full=False),
        tag("v1"),
        commit("a", 2, {(0, "x"): 31}),
        on_table(lambda table: table.rollback_to(tag="v1")),
        commit("a", 2, {(0, "x"): 41}),
        expire(2),
        compact(full=True),
        delete_tag("v1"),
        expire(1),
        clean(),
    ),
)


@dataclass
class Outcome:
    """What of a table has to be the same however it came about."""

    rows: Rows = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    tagged: dict[str, Rows] = field(default_factory=dict)
    branches: dict[str, Rows] = field(default_factory=dict)
    consumers: list[str] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)
    history: dict[int, State] = field(default_factory=dict, compare=False)
    """Snapshots between which the changelog leads; how many there are is left to chance."""


def outcome(catalog: pkray.Catalog, known: Outcome | None = None) -> Outcome:
    """The table's contents now; its snapshots and changelog are checked on the way.

    Args:
        known: snapshots, tags and branches all of whose files are as they were when these rows
            were read.
    """
    if not catalog.table_exists(NAME):
        return Outcome()
    known = known or Outcome()
    table = catalog.load_table(NAME)
    history = check_history(table, known.history)
    tags = table.tags.list()["tag_name"].to_pylist()
    branches = table.branches.list()["branch_name"].to_pylist()
    coordinator = table.runtime.service(table.location, table.schema).coordinator
    users = {user: coordinator.last_identifier(user) for user in "ab"}
    return Outcome(
        rows=_sorted(table.to_arrow()),
        columns=table.arrow_schema.names,
        tagged={tag: known.tagged.get(tag) or _sorted(table.to_arrow(tag=tag)) for tag in tags},
        branches={
            name: known.branches.get(name) or _sorted(table.branch(name).to_arrow())
            for name in branches
        },
        consumers=table.consumers.list()["consumer_id"].to_pylist(),
        last={user: last for user, last in users.items() if last is not None},
        history=history,
    )


def check_history(table: pkray.Table, known: Mapping[int, State]) -> dict[int, State]:
    """Snapshot ids have no gap, no commit is there twice, and the changelog leads from the first
    snapshot to every other.

    Returns:
        The snapshots between which it leads.
    """
    snapshots = table.system("snapshots").to_pylist()
    ids = [each["snapshot_id"] for each in snapshots]
    assert ids == (list(range(ids[0], ids[0] + len(ids))) if ids else [])
    names = [(s["commit_user"], s["commit_identifier"], s["commit_kind"]) for s in snapshots]
    assert len(set(names)) == len(names), names
    producer = table.options.get("changelog-producer", "none")
    if producer == "none":
        return {}
    keys = table.schema.primary_keys
    values = [name for name in table.arrow_schema.names if name not in keys]
    history: dict[int, State] = {}
    before: State | None = None
    for number, kind in zip(ids, (each["commit_kind"] for each in snapshots), strict=True):
        if producer == "lookup" and kind == APPEND:
            continue  # its changes are those of the COMPACT snapshot after it
        if number in known:
            there = known[number]
        else:
            there = _by_key(table.to_arrow(snapshot_id=number), keys, values)
            if before is not None and kind != OVERWRITE:
                state = dict(before)
                for row in table.changelog(number, number).to_pylist():
                    _apply(row, state, keys, values, complete=producer == "lookup")
                assert state == there, f"changelog up to snapshot {number}"
        history[number] = before = there
    return history


def _apply(row: Any, state: State, keys: Any, values: Any, *, complete: bool) -> None:
    key = tuple(row[name] for name in keys)
    image = tuple(row[name] for name in values)
    kind = row["_row_kind"]
    if complete:
        assert (kind == "+I") == (key not in state), row
        assert kind not in ("-U", "-D") or state[key] == image, row
    if kind in ("+I", "+U"):
        state[key] = image
    elif kind == "-D":
        state.pop(key, None)


def _by_key(rows: pa.Table, keys: Any, values: list[str]) -> State:
    return {
        tuple(row[name] for name in keys): tuple(row.get(name) for name in values)
        for row in rows.to_pylist()
    }


def _sorted(rows: pa.Table) -> Rows:
    return rows.sort_by([("k", "ascending"), ("dt", "ascending")]).to_pylist()
