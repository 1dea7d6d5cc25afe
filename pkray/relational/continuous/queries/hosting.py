"""Host a query where its runtime has its services: in processes of the cluster.

By default these are the workers that all tables of the warehouse share. A query for which
``query.memory`` or ``query.cpus`` are kept free, that writes to a table with ``service.dedicated``
or calls Python functions of users has processes of its own.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from msgspec import structs

from pkray.clock import now_millis
from pkray.errors import PkrayError, QueryFailedError, QueryFencedError
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.exchange.peers import Peers
from pkray.relational.continuous.parallel import hosted_team
from pkray.relational.continuous.parallel.share import Assignment, Share
from pkray.relational.continuous.queries.definitions.failure_hooks import tell
from pkray.relational.continuous.queries.definitions.query_store import Failure
from pkray.relational.continuous.queries.opening import MOST_WORKERS, open_worker
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.queries.workers.own_memory import bound_memory
from pkray.relational.continuous.queries.workers.turns import TURNS
from pkray.relational.functions.user_functions import UserFunction
from pkray.relational.local.memory import machine_memory
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.nodes import Node
from pkray.service.hosted import Hosted, Hosting, Reserved, Room
from pkray.service.runtimes import open_runtime

_MOST_STARTS = 3
"""Processes that an epoch may end; the next one does not begin it."""


def is_hosted(query: StoredQuery, clock: Callable[[], int] | None) -> bool:
    """Whether a process of the cluster runs a query, or is to."""
    return isinstance(query.catalog.runtime, Hosting) and clock is None and query.is_stored


def hosted(query: StoredQuery) -> Hosted | None:
    """Find the work of the cluster that runs a query; None where there is none."""
    runtime, name = query.catalog.runtime, query.host_name
    if not isinstance(runtime, Hosting):
        return None
    return _pool(query, runtime).hosted(name) or runtime.hosted(name)


def end_hosted(query: StoredQuery) -> None:
    """End the work of the cluster that runs a query, if there is any."""
    runtime, name = query.catalog.runtime, query.host_name
    if isinstance(runtime, Hosting):
        _pool(query, runtime).end(name)
        runtime.end(name)


def host(query: StoredQuery, is_apart: bool = False) -> None:
    """Have the cluster run a query.

    Args:
        is_apart: in processes of its own, whatever its options say.
    """
    catalog, runtime, name = query.catalog, query.catalog.runtime, query.host_name
    assert isinstance(runtime, Hosting)
    if not is_apart:
        end_hosted(query)  # work that has ended
    is_apart = is_apart or runs_apart(query)
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
        or calls_functions(query)
    )


def calls_functions(query: StoredQuery) -> bool:
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


def hosted_worker(origin: Origin) -> hosted_team.HostedQuery:
    """Open the first worker of a query where the cluster hosts it.

    Raises:
        QueryFailedError: it has stopped on an error, which whoever resumes it forgets first.
    """
    query = origin.open()
    hosting, name = _hosting_of(query, origin), query.host_name

    def check() -> None:
        _check_deaths(query, origin)

    check()

    def start(number: int, count: int) -> str:
        reserved = _reserved(query.changed(query.store.read(query.name)), number, count)
        member = hosted_team.member_name(name, number)
        hosting.host(member, hosted_member, origin, count, reserved=reserved)
        return member

    teams = hosted_team.HostedTeams(hosting, name, start, check)
    first_workers = min(hosting.processors, MOST_WORKERS) if origin.is_apart else 1
    _bound(query, origin, query.options.parallelism or first_workers)
    room = Room()
    worker = open_worker(query, None, teams.open, first_workers, TURNS, room)
    return hosted_team.HostedQuery(worker, teams, room)


def hosted_member(origin: Origin, workers: int) -> hosted_team.HostedMember:
    """Open a worker of a query that is not the first where the cluster hosts it.

    Args:
        workers: how many the query has.
    """
    query, room = origin.open(), Room()
    _bound(query, origin, workers)

    def open_share(assigned: Assignment, peers: Peers) -> Share:
        now = query.store.read(query.name)
        if now.incarnation != query.definition.incarnation:
            raise QueryFencedError(
                f"query {query.name} goes on as another incarnation", query=query.name
            )
        return query.changed(now).shares(room).open(assigned, peers)

    post = hosted_team.Post(_hosting_of(query, origin), query.host_name)
    return hosted_team.HostedMember(open_share, post.send, room)


def _bound(query: StoredQuery, origin: Origin, workers: int) -> None:
    """Bound the memory of a process in which functions of users run: to a worker's part of
    ``query.memory``, or of half of the machine. One that takes more is ended, and the query fails.
    """
    if not (origin.is_apart and calls_functions(query)):
        return
    most = (query.options.memory or machine_memory() // 2) // workers

    def above(taken: int) -> None:
        try:
            _note_death(
                query,
                f"one of its processes took {taken >> 20} MB beside what it began with, and "
                f"{most >> 20} MB are its part of query.memory, or of half of the machine where "
                "that is not set: set more, or have its functions hold less",
            )
        finally:
            os._exit(1)  # a function cannot be stopped otherwise

    bound_memory(most, above)


def _check_deaths(query: StoredQuery, origin: Origin) -> None:
    """See that no process has said why it ends, and that not one after another has ended in the
    epoch that is to be run.

    Raises:
        QueryFailedError: one has, or they have, though each was the query's own.
        QueryFencedError: they have; the query goes on in processes of its own.
    """
    failure = query.store.failure(query.definition)
    if failure is None and _has_died_often(query):
        if not origin.is_apart:  # what it does to its process is to be no matter of others
            host(query, is_apart=True)
            raise QueryFencedError(f"query {query.name} goes on in a process of its own")
        failure = _note_death(
            query,
            f"its process has died {_MOST_STARTS} times in one epoch, as by a crash in a function "
            "of a user, or as its memory did not suffice",
        )
    if failure is not None:
        raise QueryFailedError(f"query {query.name} stopped: {failure.message}", query=query.name)


def _has_died_often(query: StoredQuery) -> bool:
    """Whether processes have died in an epoch of a query, one after another; note one more."""
    log, store, definition = query.log(), query.store, query.definition
    try:
        newest = log.newest_checkpoint()
        begun = log.epochs_from(newest.epoch + 1 if newest is not None else 0)
        said = store.status(definition)
    except PkrayError:
        return False  # its run says what is wrong
    if not begun or (said is not None and said[1].get("epoch", -1) >= begun[-1].number):
        return False
    return store.count_start(definition, begun[-1].number) > _MOST_STARTS


def _note_death(query: StoredQuery, why: str) -> Failure:
    """Note that a query has failed, as its processes end in an epoch."""
    store, definition = query.store, query.definition
    said = store.status(definition)
    epoch = 0 if said is None else said[1]["epoch"] + 1
    failure = Failure(why, QueryFailedError.__name__, epoch, now_millis())
    told = tell(query.name, failure, None, query.options.failure_url)
    failure = structs.replace(failure, told=told)
    store.note_failure(definition, failure)
    return failure


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
