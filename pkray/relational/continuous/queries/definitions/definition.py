"""Define a continuous query: its plan, its results, and which beginning of it runs."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
from msgspec import structs

from pkray.relational.continuous.outlets.result_history import Commits


def new_incarnation() -> str:
    """Make an id that no other beginning of a query has."""
    return uuid.uuid4().hex[:16]


class Definition(msgspec.Struct, frozen=True):
    """Defines a query.

    Attributes:
        name: of the query; that of its table, where it has one.
        document: the compiled plan.
        before: of each root, whether rows before updates are needed.
        tables: names of the results, one a root; of a stream there is none.
        created: epoch milliseconds.
        dialect: of the query.
        options: how it runs: ``trigger``, ``max_rows``, ``checkpoint_epochs`` and so on.
        beginnings: of the sources of which not everything is read first, the positions after and
            up to which the first epoch reads.
        streams: names of the streams from outside that it reads.
        generation: the upgrade by which it got its plan; empty: none.
        incarnation: tells this beginning from all others under its name, before and after it; a
            query that goes back to a savepoint begins anew. Empty: written by a version that knew
            none, until it is started.
        begun: the incarnation that was begun from nothing, whose streams and backfill this one
            has; empty: of a version that knew none.
        user: under which results are committed; empty: as a version that knew no incarnations.
        before_it: incarnations whose commits to the results stand before those of this one.
        stood: the newest snapshots of the results when it was begun, by table.
        replaces: tables whose whole content the first epoch replaces.
        clears: whether rows of others go with it, whenever they were written.
        begins_at: the savepoint with which it begins; empty: it begins with the sources.
        columns: ids of the columns that are read, by name, by source.
        apart: whether its files lie in a folder that no other beginning has; otherwise a version
            began it that put them beside the definition.
        dropped: whether it is no more, and what is left of it is being deleted.
        number: that it is stored under; -1: by a version that did not number them.
        copy_of: where it is a restored copy, the warehouse and the incarnation that were copied.
        sql: the text that it was made from, without secrets; empty: it was made from no SQL, or by
            a version that did not keep it.
    """

    name: str
    document: dict[str, Any]
    before: tuple[bool, ...]
    tables: tuple[str, ...]
    created: int
    dialect: str
    options: dict[str, Any] = {}
    beginnings: dict[str, tuple[int, int | None]] = {}
    streams: tuple[str, ...] = ()
    generation: str = ""
    incarnation: str = ""
    begun: str = ""
    user: str = ""
    before_it: tuple[str, ...] = ()
    stood: dict[str, int] = {}
    replaces: tuple[str, ...] = ()
    clears: bool = False
    begins_at: str = ""
    columns: dict[str, dict[str, int]] = {}
    apart: bool = False
    dropped: bool = False
    number: int = -1
    copy_of: str = ""
    sql: str = ""

    @property
    def commits(self) -> Commits:
        """Say how its commits to results are known."""
        return Commits(self.name, self.incarnation, self.user or old_user(self.name), self.digest)

    @property
    def prefix(self) -> str:
        """Begin the numbers in the names of its epochs and checkpoints."""
        return "" if self.user in ("", old_user(self.name)) else f"{self.incarnation}-"

    @property
    def reader(self) -> str:
        """Name the consumer under which its sources keep what it has still to read."""
        return user_of(self.name, self.incarnation) if self.incarnation else old_user(self.name)

    def is_own(self, incarnation: str) -> bool:
        """Whether a commit of an incarnation is one of this query as it is."""
        return incarnation == self.incarnation or (not incarnation and not self.prefix)

    def same_life(self, other: Definition) -> Definition:
        """Give the query with another plan as the incarnation that runs."""
        return structs.replace(
            self,
            incarnation=other.incarnation,
            begun=other.begun,
            user=other.user,
            before_it=other.before_it,
            stood=other.stood,
            replaces=other.replaces,
            clears=other.clears,
            begins_at=other.begins_at,
            number=other.number,
        )

    def as_incarnation(self, incarnation: str) -> Definition:
        """Give the query as another incarnation, begun from nothing."""
        user = user_of(self.name, incarnation)
        return structs.replace(
            self, incarnation=incarnation, begun=incarnation, user=user, apart=True
        )

    @property
    def digest(self) -> str:
        """Tells plans apart: the digests of the roots."""
        return "-".join(node["digest"] for node in self.roots)

    @property
    def roots(self) -> list[dict[str, Any]]:
        """List the nodes that no other one takes rows of, as JSON has them."""
        taken = {edge["source"] for edge in self.document["edges"]}
        return [node for node in self.document["nodes"] if node["id"] not in taken]

    @property
    def ttls(self) -> dict[int, list[str]]:
        """List the TTLs of the states of each node, by its number."""
        return {
            node["id"]: [state["ttl"] for state in node.get("state", ())]
            for node in self.document["nodes"]
        }


def old_user(name: str) -> str:
    """Name the commit user, and the consumers, of a version that knew no incarnations."""
    return f"query-{name}"


def user_of(name: str, incarnation: str) -> str:
    """Name the commit user, and the consumers, of an incarnation."""
    return f"query-{name}@{incarnation}"


def tables_read(definition: Definition) -> list[str]:
    """Name the tables that a query reads; its plan need not be bound for that."""
    return [node["table"] for node in definition.document["nodes"] if "table" in node]
