"""Host a query where its runtime has its services: its workers are processes of the cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pkray.errors import QueryFencedError
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.exchange.peers import Peers
from pkray.relational.continuous.parallel.hosted_team import (
    HostedMember,
    HostedQuery,
    HostedTeams,
    Post,
    member_name,
)
from pkray.relational.continuous.parallel.share import Assignment, Share
from pkray.relational.continuous.queries.opening import open_worker
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.service.hosted import Hosted, Hosting, Reserved
from pkray.service.runtimes import open_runtime


def host_name(query: StoredQuery) -> str:
    """Name the process of the first worker of a query."""
    digest = hashlib.blake2b(query.catalog.warehouse.encode(), digest_size=8).hexdigest()
    incarnation = query.definition.incarnation
    return f"pkray-query-{digest}-{f'{incarnation}-' if incarnation else ''}{query.name}"


def is_hosted(query: StoredQuery, clock: Callable[[], int] | None) -> bool:
    """Whether a process of the cluster runs a query, or is to."""
    return isinstance(query.catalog.runtime, Hosting) and clock is None and query.is_stored


def hosted(query: StoredQuery) -> Hosted | None:
    """Find the process of the cluster that runs a query; None where there is none."""
    runtime = query.catalog.runtime
    return runtime.hosted(host_name(query)) if isinstance(runtime, Hosting) else None


def end_hosted(query: StoredQuery) -> None:
    """End the processes of the cluster that run a query, if there are any."""
    runtime = query.catalog.runtime
    if isinstance(runtime, Hosting):
        runtime.end(host_name(query))


def host(query: StoredQuery) -> None:
    """Have a process of the cluster run a query."""
    catalog, runtime, name = query.catalog, query.catalog.runtime, host_name(query)
    assert isinstance(runtime, Hosting)
    runtime.end(name)  # an actor whose work has ended
    origin = Origin(
        catalog.warehouse,
        dict(catalog.storage_options),
        query.name,
        dict(catalog.session.functions),
        runtime.options,
    )
    runtime.host(name, hosted_worker, origin, reserved=_reserved(query, 0, 1))


@dataclass(frozen=True)
class Origin:
    """With what another process opens a query.

    Attributes:
        name: of the query.
        functions: of users, by name.
        runtime_options: of who began the query.
    """

    warehouse: str
    storage_options: dict[str, Any] = field(repr=False)  # some are secret
    name: str
    functions: dict[str, Any]
    runtime_options: dict[str, Any] = field(repr=False)

    def open(self) -> StoredQuery:
        """Open the query, on the same cluster."""
        runtime = open_runtime("ray", self.runtime_options, self.storage_options)
        catalog = Catalog(self.warehouse, runtime, self.storage_options)
        catalog.session.functions.update(self.functions)
        return StoredQuery.read(catalog, self.name)


def hosted_worker(origin: Origin) -> HostedQuery:
    """Open the first worker of a query in a process of its own."""
    query = origin.open()
    hosting, name = query.catalog.runtime, host_name(query)
    assert isinstance(hosting, Hosting)

    def start(number: int, count: int) -> str:
        reserved = _reserved(query.changed(query.store.read(query.name)), number, count)
        member = member_name(name, number)
        hosting.host(member, hosted_member, origin, reserved=reserved)
        return member

    teams = HostedTeams(hosting, name, start)
    return HostedQuery(open_worker(query, None, teams.open), teams)


def hosted_member(origin: Origin) -> HostedMember:
    """Open a worker of a query that is not the first, in a process of its own."""
    query = origin.open()
    hosting = query.catalog.runtime
    assert isinstance(hosting, Hosting)

    def open_share(assigned: Assignment, peers: Peers) -> Share:
        now = query.store.read(query.name)
        if now.incarnation != query.definition.incarnation:
            raise QueryFencedError(
                f"query {query.name} goes on as another incarnation", query=query.name
            )
        return query.changed(now).shares().open(assigned, peers)

    return HostedMember(open_share, Post(hosting, host_name(query)).send)


def _reserved(query: StoredQuery, number: int, count: int) -> Reserved:
    """Say what is kept free for the process of a worker: its part of what the query may take.

    The first one is there before it is known how many there are: it takes as much as the others
    where that is said.
    """
    options = query.options
    workers = count if number else options.parallelism or 1
    return Reserved((options.cpus or 0.0) / workers, (options.memory or 0) // workers)
