"""The service of a warehouse on a Ray cluster, as those who run it see and move it."""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import ray

from pkray.errors import NodeNotFoundError, ServiceUnavailableError
from pkray.lsm.compaction.under_way import UnderWay
from pkray.metrics.collection import Collected
from pkray.service.administration import Placed
from pkray.service.pool.overview import Overview
from pkray.service.pool.parts import COORDINATOR
from pkray.service.ray.actors import NAMESPACE, actor_names, found_actor, living_nodes
from pkray.service.ray.pool import Pool
from pkray.service.ray.processes import Process, ask, compacting, counted, tail, tell

_ANSWER_SECONDS = 5.0
"""For how long processes are waited for that are to tell of themselves: people wait for them."""
_LOOK_SECONDS = 0.2
_SHORTEST_ID = 4
"""Digits of a node's id by which it may be named."""


class RayAdministration:
    """The pool of a warehouse, and the actors of tables that have their own.

    Args:
        name: of the pool.
        open_pool: finds the pool, or starts it.
        tables: names of the warehouse's tables, by what the names of their actors begin with.
    """

    def __init__(
        self, name: str, open_pool: Callable[[], Pool], tables: Callable[[], Mapping[str, str]]
    ) -> None:
        self._name = name
        self._open_pool = open_pool
        self._tables = tables

    def start(self, seconds: float) -> None:
        """Start the pool, if it does not run, and wait until its workers do.

        Raises:
            ServiceUnavailableError: they do not in time.
        """
        deadline, keeper = time.monotonic() + seconds, self._open_pool().keeper
        while True:
            seen = keeper.overview()
            living = sum(each.lease > 0 for each in seen.workers)
            if living >= seen.wanted:
                return
            if time.monotonic() > deadline:
                raise ServiceUnavailableError(
                    f"{living} of {seen.wanted} workers have started within {seconds:g} s: the "
                    "cluster may lack processors or memory; see ray status"
                )
            time.sleep(_LOOK_SECONDS)

    def hold(self) -> bool:
        """Whether there is a pool; it does not end for half a minute, with tables or without."""
        if not Pool.is_running(self._name):
            return False
        with suppress(ServiceUnavailableError):  # Ray starts a keeper anew
            self._open_pool().keeper.hold.once()
        return True

    def placed(self) -> list[Placed]:
        """List the processes, and what tables have in them."""
        names = self._actors(self._name)
        told = self._told(names)
        seen = self._overview()
        pooled = [self._process(each, told[each], seen) for each in names]
        if seen is not None:
            pooled += _parts(seen, {each.worker: each for each in pooled})
        return [*pooled, *self._dedicated()]

    def logs(self, names: Sequence[str] | None, lines: int) -> dict[str, str]:
        """Read the ends of what processes have written."""
        if names is None:
            names = self._actors(self._name)
        texts = ask([*map(found_actor, names)], tail, lines, seconds=_ANSWER_SECONDS)
        return {self._label(name): text or "" for name, text in zip(names, texts, strict=True)}

    def dashboard(self) -> str | None:
        """Say where Ray's dashboard is, as Ray found it; None: nobody serves one."""
        with suppress(ImportError, AttributeError):  # Ray tells of it in no public way
            from ray._private import worker

            find: Callable[[], str | None] = worker.get_dashboard_url
            address = find()
            return f"http://{address}" if address else None
        return None

    def metrics(
        self, tables: Collection[str], queries: Collection[str], hosts: Sequence[str]
    ) -> dict[str, Collected]:
        """Collect what the processes count, by process; those that do not answer are left out."""
        own = [name for prefix in self._tables() for name in self._actors(prefix)]
        found = [*self._actors(self._name), *own, *hosts]
        there, asked = frozenset(tables), frozenset(queries)
        answers = ask([*map(found_actor, found)], counted, there, asked, seconds=_ANSWER_SECONDS)
        pairs = zip(found, answers, strict=True)
        return {self._label(name): answer for name, answer in pairs if answer is not None}

    def compactions(self, table: str, url: str) -> list[UnderWay]:
        """List the compactions of a table that run in the processes; those that do not answer are
        left out."""
        actors = [*map(found_actor, self.workers_of(table))]
        answers = ask(actors, compacting, url, seconds=_ANSWER_SECONDS)
        return [each for answer in answers for each in answer or ()]

    def workers_of(self, thing: str) -> list[str]:
        """Name the actors in which a table, or work, has something."""
        seen = self._overview()
        pooled = {} if seen is None else {p.worker for p in seen.parts if p.thing == thing}
        own = [prefix for prefix, name in self._tables().items() if name == thing]
        return [
            *(f"{self._name}-worker-{number}" for number in sorted(pooled)),
            *(name for prefix in own for name in self._actors(prefix)),
        ]

    def drain(self, node: str, drained: bool, seconds: float) -> str:
        """Empty the workers of a node, or let them have parts again; return the node's id.

        Raises:
            NodeNotFoundError: none, or more than one, has the name.
            ServiceUnavailableError: they still have parts after so many seconds.
        """
        found = _node(node)
        keeper = self._open_pool().keeper
        keeper.drain_node(found, drained)

        def left() -> int:
            workers = keeper.overview().workers
            if all(each.is_emptied for each in workers):
                return 0  # there is none that could have them
            return sum(each.parts for each in workers if each.process.node == found)

        if drained:
            self._await(lambda: left() == 0, seconds, f"the workers of node {node} have parts")
        return found

    def restart(self, seconds: float) -> int:
        """Begin one worker after the other anew, each when it is empty, and at last the keeper;
        return how many workers these were.

        Raises:
            ServiceUnavailableError: one is not empty, or has not begun anew, within its seconds.
        """
        pool = self._open_pool()
        workers = [each for each in pool.keeper.overview().workers if each.lease > 0]
        for each in workers:
            number, token = each.number, each.process.token
            self._await(
                lambda: pool.keeper.retire(number, token) == 0,  # noqa: B023 # called within
                seconds,
                f"worker {number} has parts",
            )
            ray.kill(pool.worker(number), no_restart=False)
            self._await(
                lambda: any(
                    now.number == number and now.process.token != token and now.lease > 0  # noqa: B023
                    for now in pool.keeper.overview().workers
                ),
                seconds,
                f"worker {number} has not begun anew",
            )
        ray.kill(ray.get_actor(f"{self._name}-keeper", NAMESPACE), no_restart=False)
        self._await(
            lambda: self._living() >= len(workers),
            seconds,
            "the new keeper does not know all workers",
        )
        return len(workers)

    def _living(self) -> int:
        """Count the workers of which the keeper hears."""
        seen = self._overview()
        return 0 if seen is None else sum(each.lease > 0 for each in seen.workers)

    @staticmethod
    def _await(reached: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > deadline:
                raise ServiceUnavailableError(
                    f"{what} still after {seconds:g} s: it goes on; see pkray service status"
                )
            time.sleep(_LOOK_SECONDS)

    def stop(self) -> None:
        """End the pool, and the actors of tables that have their own."""
        if Pool.is_running(self._name):
            with suppress(ServiceUnavailableError):
                self._open_pool().release_all()
        own = [name for prefix in self._tables() for name in self._actors(prefix)]
        # Keepers and coordinators first: they start the others.
        for name in [*self._actors(self._name), *own]:
            with suppress(ValueError):
                ray.kill(ray.get_actor(name, NAMESPACE))

    def _overview(self) -> Overview | None:
        """Ask the keeper; None where there is none, or it does not answer."""
        if Pool.is_running(self._name):
            with suppress(ServiceUnavailableError):
                return self._open_pool().keeper.overview.once()
        return None

    def _dedicated(self) -> list[Placed]:
        placed = []
        for prefix, table in self._tables().items():
            names = self._actors(prefix)
            for name, process in self._told(names).items():
                kind, _, index = name.removeprefix(prefix).partition("-")
                placed.append(_placed(kind, f"{table} {index}".strip(), process))
        return placed

    def _process(self, name: str, process: Process | None, seen: Overview | None) -> Placed:
        kind, _, number = name.removeprefix(f"{self._name}-").partition("-")
        if kind == "keeper" or not number.isdecimal():
            return _placed(kind, kind, process)
        found = _placed(kind, f"worker {number}", process, int(number))
        workers = {} if seen is None else {each.number: each for each in seen.workers}
        known = workers.get(int(number))
        if process is not None and (known is None or known.lease <= 0):
            return _placed(kind, found.name, process, found.worker, "starting")
        if known is not None and known.is_emptied:
            return replace(found, state="drained" if not known.parts else "draining")
        return found

    def _label(self, name: str) -> str:
        if name.startswith(self._name):
            return name.removeprefix(f"{self._name}-").replace("-", " ")
        for prefix, table in self._tables().items():
            if name.startswith(prefix):
                return f"{name.removeprefix(prefix).replace('-', ' ')} of table {table}"
        return name

    @staticmethod
    def _told(names: Sequence[str]) -> dict[str, Process | None]:
        answers = ask([*map(found_actor, names)], tell, seconds=_ANSWER_SECONDS)
        return dict(zip(names, answers, strict=True))

    @staticmethod
    def _actors(prefix: str) -> list[str]:
        """List actors by number: the keeper, or the coordinator, first."""
        names = actor_names(prefix)
        return sorted(names, key=lambda name: [int(d) for d in re.findall(r"-(\d+)$", name)])


def _node(name: str) -> str:
    """Find a node by its id, the beginning of that, its address or its host's name."""
    living = living_nodes()
    named = [
        each["NodeID"]
        for each in living
        if (len(name) >= _SHORTEST_ID and each["NodeID"].startswith(name))
        or name in (each["NodeManagerAddress"], each["NodeManagerHostname"])
    ]
    if len(named) == 1:
        return str(named[0])
    ids = ", ".join(sorted(each["NodeID"][:12] for each in living))
    what = "several nodes have" if named else "no node has"
    raise NodeNotFoundError(
        f"{what} the name {name!r}: give the beginning of an id, of {ids}", value=name
    )


def _placed(
    kind: str, name: str, process: Process | None, worker: int | None = None, state: str = "running"
) -> Placed:
    if process is None:
        return Placed(kind, name, "silent", worker)
    at = (process.node, process.host, process.pid, process.memory, process.age)
    return Placed(kind, name, state, worker, *at)


def _parts(seen: Overview, workers: Mapping[int | None, Placed]) -> list[Placed]:
    """Place the parts of tables at their workers; tables without any are at rest."""
    lost = {each.number for each in seen.workers if each.lease <= 0}
    placed = []
    for each in seen.parts:
        is_owner = not each.is_work and each.index != COORDINATOR
        kind = "work" if each.is_work else "owner" if is_owner else "coordinator"
        name = f"{each.thing} {each.index}" if is_owner else each.thing
        at = workers.get(each.worker, Placed("worker", "", "lost"))
        state = "lost" if each.worker in lost else "running"
        placed.append(Placed(kind, name, state, each.worker, at.node, at.host, at.pid))
    placed.sort(key=lambda each: each.name)
    resting = set(seen.tables) - {each.thing for each in seen.parts}
    return placed + [Placed("table", name, "at rest") for name in sorted(resting)]
