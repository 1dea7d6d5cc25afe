"""Host a query where its runtime has its services: in processes of the cluster.

By default these are the workers that all tables of the warehouse share. A query for which
``query.memory`` or ``query.cpus`` are kept free, that writes to a table with ``service.dedicated``
or calls Python functions of users has processes of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from pkray.errors import QueryFailedError, QueryFencedError
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
from pkray.relational.continuous.queries.opening import MOST_WORKERS, open_worker
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.functions.user_functions import UserFunction
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.nodes import Node
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
    """Find the work of the cluster that runs a query; None where there is none."""
    runtime, name = query.catalog.runtime, host_name(query)
    if not isinstance(runtime, Hosting):
        return None
    return _pool(query, runtime).hosted(name) or runtime.hosted(name)


def end_hosted(query: StoredQuery) -> None:
    """End the work of the cluster that runs a query, if there is any."""
    runtime, name = query.catalog.runtime, host_name(query)
    if isinstance(runtime, Hosting):
        _pool(query, runtime).end(name)
        runtime.end(name)


def host(query: StoredQuery) -> None:
    """Have the cluster run a query."""
    catalog, runtime, name = query.catalog, query.catalog.runtime, host_name(query)
    assert isinstance(runtime, Hosting)
    end_hosted(query)  # work that has ended
    is_apart = runs_apart(query)
    origin = Origin(
        catalog.warehouse,
        dict(catalog.storage_options),
        query.name,
        dict(catalog.session.functions) if is_apart else {},
        runtime.options,
        is_apart,
    )
    hosting = runtime if is_apart else _pool(query, runtime)
    hosting.host(name, hosted_worker, origin, reserved=_reserved(query, 0, 1))


def runs_apart(query: StoredQuery) -> bool:
    """Whether a query has processes of its own."""
    options = query.options
    return (
        options.memory is not None
        or options.cpus is not None
        or any(each.schema.core.service_dedicated for each in query.results().values())
        or _calls_functions(query)
    )


def _calls_functions(query: StoredQuery) -> bool:
    """Whether a query calls functions of users, which may do what they like with their process."""
    functions = bool(query.catalog.session.functions)
    return functions and any(map(_holds_function, query.roots))


def _holds_function(value: object) -> bool:
    if isinstance(value, UserFunction):
        return True
    if isinstance(value, tuple | list):
        return any(map(_holds_function, value))
    if isinstance(value, Node | Expression) and is_dataclass(value):
        return any(_holds_function(getattr(value, each.name)) for each in fields(value))
    return False


def _pool(query: StoredQuery, runtime: Hosting) -> Hosting:
    """Give what hosts queries beside the tables of their warehouse."""
    return runtime.pooled(query.catalog.warehouse, query.catalog.storage_options)


@dataclass(frozen=True)
class Origin:
    """With what another process opens a query.

    Attributes:
        name: of the query.
        functions: of users, by name.
        runtime_options: of who began the query.
        is_apart: whether it has processes of its own.
    """

    warehouse: str
    storage_options: dict[str, Any] = field(repr=False)  # some are secret
    name: str
    functions: dict[str, Any]
    runtime_options: dict[str, Any] = field(repr=False)
    is_apart: bool = True

    def open(self) -> StoredQuery:
        """Open the query, on the same cluster."""
        runtime = open_runtime("ray", self.runtime_options, self.storage_options)
        catalog = Catalog(self.warehouse, runtime, self.storage_options)
        catalog.session.functions.update(self.functions)
        return StoredQuery.read(catalog, self.name)


def hosted_worker(origin: Origin) -> HostedQuery:
    """Open the first worker of a query where the cluster hosts it.

    Raises:
        QueryFailedError: it has stopped on an error, which whoever resumes it forgets first.
    """
    query = origin.open()
    hosting, name = _hosting_of(query, origin), host_name(query)
    failure = query.store.failure(query.definition)
    if failure is not None:
        raise QueryFailedError(f"query {query.name} stopped: {failure.message}", query=query.name)

    def start(number: int, count: int) -> str:
        reserved = _reserved(query.changed(query.store.read(query.name)), number, count)
        member = member_name(name, number)
        hosting.host(member, hosted_member, origin, reserved=reserved)
        return member

    teams = HostedTeams(hosting, name, start)
    first_workers = min(hosting.processors, MOST_WORKERS) if origin.is_apart else 1
    return HostedQuery(open_worker(query, None, teams.open, first_workers), teams)


def hosted_member(origin: Origin) -> HostedMember:
    """Open a worker of a query that is not the first where the cluster hosts it."""
    query = origin.open()

    def open_share(assigned: Assignment, peers: Peers) -> Share:
        now = query.store.read(query.name)
        if now.incarnation != query.definition.incarnation:
            raise QueryFencedError(
                f"query {query.name} goes on as another incarnation", query=query.name
            )
        return query.changed(now).shares().open(assigned, peers)

    return HostedMember(open_share, Post(_hosting_of(query, origin), host_name(query)).send)


def _hosting_of(query: StoredQuery, origin: Origin) -> Hosting:
    runtime = query.catalog.runtime
    assert isinstance(runtime, Hosting)
    return runtime if origin.is_apart else _pool(query, runtime)


def _reserved(query: StoredQuery, number: int, count: int) -> Reserved:
    """Say what is kept free for the process of a worker: its part of what the query may take.

    The first one is there before it is known how many there are: it takes as much as the others
    where that is said.
    """
    options = query.options
    workers = count if number else options.parallelism or 1
    return Reserved((options.cpus or 0.0) / workers, (options.memory or 0) // workers)
