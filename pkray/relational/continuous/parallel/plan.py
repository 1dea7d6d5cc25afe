"""Hold a physical plan that runs, with what is said of its states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pkray.relational.continuous.feeds.backfill import Backfill
from pkray.relational.continuous.feeds.beginnings import Beginning
from pkray.relational.plan.nodes import Node


@dataclass(frozen=True)
class RunnablePlan:
    """A physical plan, ready to run.

    Attributes:
        roots: one an outlet.
        before: of each root, whether its outlet needs the rows before updates.
        ttl: of state for which neither hint nor plan says another.
        ttls: as the compiled plan says them, by a node's number.
        digest: tells plans apart.
        beginnings: of the sources of which not everything is read first; None: as it is now.
        backfill: what another engine brings for the first epoch; None: nothing.
    """

    roots: tuple[Node, ...]
    before: tuple[bool, ...]
    ttl: str = "0 ms"
    ttls: Mapping[int, Sequence[str]] | None = None
    digest: str = ""
    beginnings: Mapping[str, Beginning] | None = None
    backfill: Backfill | None = None
