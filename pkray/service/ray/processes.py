"""Tell of the processes of actors, whatever the actors do."""

from __future__ import annotations  # an actor's handle carries them to other versions: as text

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil  # type: ignore[import-untyped] # Ray brings it
import ray

from pkray.lsm.compaction.under_way import UnderWay, under_way
from pkray.metrics.collection import Collected, unless_there, without
from pkray.metrics.registry import REGISTRY

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MOST_BYTES = 1 << 20
"""Of the end of a log: no line of interest is longer, and many processes are read at a time."""
_RAYS_OWN = "python-core-"
"""Begins the names of files in which Ray notes what it does in a process."""
_RECORD = re.compile(r"\[[\d:, -]+ (?P<level>[A-Z]) \d+ \d+\]")


class Told(Protocol[T_co]):
    """Is run in the process of an actor."""

    def __call__(self, actor: object, *arguments: Any) -> T_co: ...


@dataclass(frozen=True)
class Process:
    """A process that answers.

    Args:
        memory: bytes.
        age: seconds.
    """

    pid: int
    node: str
    host: str
    memory: int
    age: float


def tell(actor: object) -> Process:
    """Describe the process that this runs in."""
    itself = psutil.Process()
    address: Any = ray.util.get_node_ip_address  # it has no types
    return Process(
        os.getpid(),
        ray.get_runtime_context().get_node_id(),
        address(),
        itself.memory_info().rss,
        max(0.0, time.time() - itself.create_time()),
    )


def counted(actor: object, tables: Collection[str], queries: Collection[str]) -> Collected:
    """Collect what the process that this runs in counts of these tables and queries, by name; the
    series of others end."""
    is_gone = unless_there(tables, queries)
    REGISTRY.forget(is_gone)
    return without(REGISTRY.collect(), is_gone)


def compacting(actor: object, url: str) -> list[UnderWay]:
    """List the compactions of the table at a URL that run in the process that this runs in."""
    return under_way(url)


def tail(actor: object, lines: int) -> str:
    """Read the last lines of what the process that this runs in has written; of what Ray itself
    notes in it the warnings and errors, before them: it notes every call."""
    node: Any = ray._private.worker.global_worker.node
    paths = sorted(Path(node.get_logs_dir_path()).glob(f"*[-_]{os.getpid()}.*"))
    of_ray = [path for path in paths if path.name.startswith(_RAYS_OWN)]
    own = sorted(set(paths) - set(of_ray), key=lambda path: path.stat().st_mtime)
    noted = [line for path in of_ray for line in remarks(_end_of(path))]
    written = [line for path in own for line in _end_of(path).splitlines()]
    return "\n".join([*noted, *written][-lines:])


def remarks(text: str) -> Iterator[str]:
    """Yield the records of a log of Ray that are no mere information, with all their lines."""
    is_kept = False
    for line in text.splitlines():
        begun = _RECORD.match(line)
        if begun is not None:
            is_kept = begun["level"] not in "ID"
        if is_kept:
            yield line


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MOST_BYTES))
        return file.read().decode(errors="replace")


def ask(actors: Sequence[object], told: Told[T], *arguments: Any, seconds: float) -> list[T | None]:
    """Run a function in the process of each actor; None for those that do not answer in time."""
    refs = [_begun(actor, told, arguments) for actor in actors]
    waiting = [ref for ref in refs if ref is not None]
    if waiting:
        ray.wait(waiting, num_returns=len(waiting), timeout=seconds)
    return list(_answers(refs))


def _begun(actor: Any, told: Told[T], arguments: Sequence[Any]) -> Any:
    with suppress(Exception):
        return actor.__ray_call__.remote(told, *arguments)
    return None


def _answers(refs: Iterable[Any]) -> Iterable[Any]:
    for ref in refs:
        answer = None
        if ref is not None:
            with suppress(Exception):  # it is dead, silent, or of a version that cannot tell
                answer = ray.get(ref, timeout=0)
        yield answer
