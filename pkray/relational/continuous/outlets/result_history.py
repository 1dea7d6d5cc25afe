"""Find who has written to the table of a result, by its snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pkray.errors import SnapshotNotFoundError
from pkray.format.snapshot import APPEND, OVERWRITE, Snapshot
from pkray.metadata.snapshot_marks import mark_of
from pkray.metadata.snapshots import SnapshotStore
from pkray.relational.continuous.log.log import Committed
from pkray.storage.branch_store import main_and_history
from pkray.table.table import Table

SOURCES, EPOCH, PLAN = "pkray.query.sources", "pkray.query.epoch", "pkray.query.plan"
WATERMARKS = "pkray.query.watermarks"
"""Properties of the snapshots of results: JSON of the positions of the sources, the epoch, the
digest of the plan; and, where windows are, JSON of the watermarks of operators in microseconds."""
QUERY, INCARNATION = "pkray.query.name", "pkray.query.incarnation"
"""Which query committed, and which incarnation of it."""
WRITERS = "pkray.query.writers"
"""JSON of who had written to the table: `Writers`, up to the snapshot ``until``."""
WRITING = (APPEND, OVERWRITE)
"""Kinds of snapshots that bring rows, or take some away."""
REPLACED = "pkray.query.replaced"
"""The snapshot whose whole content the commit replaced."""


@dataclass(frozen=True)
class Commits:
    """Say how a query's commits to its results are known.

    Attributes:
        query: its name.
        user: the commit user.
        digest: of the plan.
    """

    query: str
    incarnation: str
    user: str
    digest: str

    def properties(
        self, positions: Mapping[str, int], epoch: int, watermarks: Mapping[Any, int]
    ) -> dict[str, str]:
        """Make the properties of the snapshot that ends an epoch."""
        made = {
            QUERY: self.query,
            INCARNATION: self.incarnation,
            SOURCES: json.dumps(dict(positions)),
            EPOCH: str(epoch),
            PLAN: self.digest,
        }
        if watermarks:
            made[WATERMARKS] = json.dumps(dict(watermarks))
        return made


@dataclass(frozen=True)
class ResultCommit:
    """A commit of a query to its result.

    Attributes:
        incarnation: empty: of a version that knew none.
        positions: of the sources.
    """

    query: str
    incarnation: str
    committed: Committed
    positions: Mapping[str, int]


@dataclass(frozen=True)
class Writers:
    """Say who has written to a table.

    Attributes:
        queries: names of continuous queries.
        others: commit users of everybody else.
        is_whole: whether these are all: snapshots that nobody looked at may have expired.
    """

    queries: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    is_whole: bool = True

    def __or__(self, other: Writers) -> Writers:
        return Writers(
            self.queries | other.queries,
            self.others | other.others,
            self.is_whole and other.is_whole,
        )

    def besides(self, query: str) -> list[str]:
        """Name those that are not a query of this name, for people."""
        queries = [f"query {name}" for name in sorted(self.queries - {query})]
        unknown = [] if self.is_whole else ["those whose snapshots have expired"]
        return [*queries, *sorted(self.others), *unknown]


class ResultHistory:
    """Reads who committed what to a table.

    It remembers what it has seen, and reads on from there.
    """

    def __init__(self, table: Table) -> None:
        self._snapshots = SnapshotStore(main_and_history(table.location.open())[1])
        self._seen = 0
        self._writers = Writers()

    def newest_of(self, query: str, after: int = 0) -> ResultCommit | None:
        """Find the newest commit of a query after a snapshot, of any incarnation; None where there
        is none, or all have expired.
        """
        for snapshot in self.since(after):
            made = commit_of(snapshot)
            if made is not None and made.query == query:
                return made
        return None

    def since(self, after: int) -> Iterator[Snapshot]:
        """Yield the snapshots after one, from the newest back, that are there."""
        for snapshot in self._backwards():
            if snapshot.id <= after:
                return
            yield snapshot

    def others_since(self, after: int, query: str) -> list[str]:
        """Name, for people, who wrote rows after a snapshot and is no query of this name."""
        found = set()
        for snapshot in self.since(after):
            made = commit_of(snapshot)
            if snapshot.commit_kind not in WRITING:
                continue
            if made is None:
                found.add(snapshot.commit_user)
            elif made.query != query:
                found.add(f"query {made.query}")
        return sorted(found)

    def has(self, snapshot_id: int, mark: str) -> bool:
        """Whether a snapshot is there as it was, or has expired."""
        try:
            return mark_of(self._snapshots.read(snapshot_id, fresh=True)) == mark
        except SnapshotNotFoundError:
            return snapshot_id < (self._snapshots.earliest_id() or 0)

    def writers(self) -> Writers:
        """Say who has written to the table so far."""
        newest = self._snapshots.latest()  # notices a rollback
        latest = newest.id if newest is not None else 0
        if latest < self._seen:  # rolled back
            self._seen, self._writers = 0, Writers()
        found, reached = Writers(), latest + 1
        until = self._seen
        for snapshot in self._snapshots.backwards(latest):
            if snapshot.id <= until:
                break
            reached = snapshot.id
            found |= _writer_of(snapshot)
            known = (snapshot.properties or {}).get(WRITERS)
            if known is not None:
                said = json.loads(known)
                found |= _decoded(said)
                if int(said["until"]) >= until:
                    until, self._writers = int(said["until"]), Writers()
        if reached > until + 1:
            found |= Writers(is_whole=False)
        self._writers |= found
        self._seen = latest
        return self._writers

    def forget_before(self, snapshot_id: int) -> None:
        """Count nobody any more: the content up to a snapshot was replaced."""
        self._seen, self._writers = snapshot_id, Writers()

    def told(self) -> str:
        """Write who has written so far, to be kept with a commit."""
        writers = self.writers()
        return json.dumps(
            {
                "until": self._seen,
                "queries": sorted(writers.queries),
                "others": sorted(writers.others),
                "whole": writers.is_whole,
            }
        )

    @property
    def latest_id(self) -> int:
        """The newest snapshot; 0 before the first."""
        return self._snapshots.latest_id() or 0

    def _backwards(self) -> Iterator[Snapshot]:
        latest = self._snapshots.latest()  # notices a rollback
        return iter(()) if latest is None else self._snapshots.backwards(latest.id)


def _decoded(said: Mapping[str, Any]) -> Writers:
    return Writers(frozenset(said["queries"]), frozenset(said["others"]), bool(said["whole"]))


def _writer_of(snapshot: Snapshot) -> Writers:
    if snapshot.commit_kind not in WRITING:
        return Writers()
    made = commit_of(snapshot)
    if made is not None:
        return Writers(queries=frozenset({made.query}))
    return Writers(others=frozenset({snapshot.commit_user}))


def commit_of(snapshot: Snapshot) -> ResultCommit | None:
    """Read what a query committed; None: somebody else did."""
    said = snapshot.properties or {}
    if EPOCH not in said or SOURCES not in said:
        return None
    return ResultCommit(
        said.get(QUERY, snapshot.commit_user.removeprefix("query-")),
        said.get(INCARNATION, ""),
        Committed(int(said[EPOCH]), snapshot.id, mark_of(snapshot)),
        positions_of(snapshot),
    )


def positions_of(snapshot: Snapshot | None) -> dict[str, int]:
    """Read which positions of the sources a snapshot of a result names; empty where it is none."""
    said = (snapshot.properties or {}).get(SOURCES) if snapshot is not None else None
    return {} if said is None else {str(name): int(at) for name, at in json.loads(said).items()}
