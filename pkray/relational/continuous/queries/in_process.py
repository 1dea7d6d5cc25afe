"""Keep what this process alone has of queries: plans, and functions of users."""

from __future__ import annotations

from dataclasses import dataclass, field

from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.queries.definitions.failure_hooks import OnFailure
from pkray.relational.plan.nodes import Node


@dataclass
class InProcess:
    """Holds what this process has of one incarnation of a query.

    Attributes:
        roots: physical plans, by the generation of the definition: some read what is in memory
            alone.
        outlet: gives changes to a function of this process.
        on_failure: is told of failures.
    """

    roots: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    outlet: Outlet | None = None
    on_failure: OnFailure | None = None


IN_PROCESS: dict[str, InProcess] = {}
"""Of the queries of this process, by warehouse, name and incarnation."""


def take_along(before: str, now: str) -> None:
    """Have what this process has of one incarnation be of another too."""
    had, has = IN_PROCESS.get(before), IN_PROCESS.setdefault(now, InProcess())
    if had is not None:
        has.roots.update(had.roots)
        has.outlet = had.outlet or has.outlet
        has.on_failure = had.on_failure or has.on_failure
