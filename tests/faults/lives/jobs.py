"""What lives begin with, and what has to be so of each query."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tests.faults.lives.books import Histories, Layout, Producer
from tests.faults.lives.machines import File, Machine, Outcome
from tests.faults.lives.plans import KINDS, Added, Both, Plan, Reading

MAIN, READER, SECOND = "main", "reader", "second"
RESULT, RESULT_2, READ = "d.r", "d.s", "d.x"
"""The tables of the results: of the main query, of its second INSERT, and of the reader."""

AnyPlan: TypeAlias = Plan | Both | Added | Reading
State = Literal["none", "running", "stopped", "gone", "asleep", "failed", "dropped"]


@dataclass(frozen=True)
class Setting:
    """What a life begins with.

    Attributes:
        plan: of the main query.
        layout: of the sources.
        producers: of the changelogs of the sources.
        shown: the producer of the results' changelogs.
        spread: the buckets of the results; ``parted``: they are partitioned, where they are made
            before their query.
        form: whether the main query makes its result, or inserts into tables that are there.
        workers: of the main query.
        checkpoint_epochs: after so many epochs a checkpoint is written.
        trigger: of the main query.
        counts: whether the reader counts, or takes all rows as they are.
        apart: whether the reader runs in a process of its own.
    """

    plan: Plan | Both
    layout: Layout = "plain"
    producers: tuple[Producer, Producer] = ("lookup", "lookup")
    shown: Producer = "lookup"
    spread: Literal["one", "two", "dynamic", "parted"] = "one"
    form: Literal["materialize", "insert"] = "materialize"
    workers: int = 1
    checkpoint_epochs: int = 100
    trigger: Literal["changes", "available_now"] = "changes"
    counts: bool = False
    apart: bool = False

    @property
    def results(self) -> dict[str, Plan]:
        """Give the plans of the main query by their tables."""
        return dict(zip((RESULT, RESULT_2), self.plan.parts, strict=False))

    @property
    def options(self) -> dict[str, str]:
        """Give the options of the results."""
        buckets = {"one": "1", "two": "2", "dynamic": "-1", "parted": "1"}[self.spread]
        return {"changelog-producer": self.shown, "bucket": buckets}

    def columns_of(self, table: str) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
        """Give the columns and the key of a result that is made before its query."""
        kind = KINDS[self.results[table].kind]
        types = dict.fromkeys(kind.key, "BIGINT NOT NULL")
        return [(name, types.get(name, "BIGINT")) for name in kind.columns], kind.key


@dataclass
class Job:
    """What has to be so of a query.

    Attributes:
        name: in its life.
        query: its name in the warehouse.
        tables: its results, one for each part of its plan.
        plan: None before it began.
        older: the plan that it had, from an upgrade until that is accepted.
        former: the plan that it had before the step that is played.
        state: ``gone`` with its process, ``asleep`` with it.
        machine: on which its user is, and which runs it.
        histories: of the sources, when it was last seen to go on.
        excuses: why it may refuse to go on.
        excused: where the sources were when the last of them came; it need not notice before they
            go on.
        savepoints: plans by name.
        copies: of its folder, by when they were made.
        clears: whether the rows of others go as it begins.
    """

    name: str
    query: str
    tables: tuple[str, ...]
    plan: AnyPlan | None = None
    older: AnyPlan | None = None
    former: AnyPlan | None = None
    state: State = "none"
    machine: Machine | None = None
    histories: Histories = field(default_factory=dict)
    excuses: set[str] = field(default_factory=set)
    excused: Mapping[str, Any] = field(default_factory=dict)
    savepoints: dict[str, AnyPlan | None] = field(default_factory=dict)
    copies: dict[str, Mapping[str, File]] = field(default_factory=dict)
    clears: bool = False

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def exists(self) -> bool:
        return self.state not in ("none", "dropped")

    @property
    def at_work(self) -> Machine | None:
        """Give the machine that runs it now."""
        is_up = self.is_running and self.machine is not None and self.machine.is_awake
        return self.machine if is_up else None

    @property
    def sources(self) -> tuple[str, ...]:
        return self.plan.sources if self.plan is not None else ()


@dataclass
class Sleeper:
    """A machine that sleeps.

    Attributes:
        jobs: those that ran on it.
        pending: the call in the middle of which it fell asleep.
        called: the query of that call.
        plan: that the call begins, whatever is there.
        newer: that the call upgrades to.
        overtaken: names of those with which others went on.
    """

    machine: Machine
    jobs: list[Job]
    pending: Outcome | None
    what: str
    called: Job | None = None
    plan: AnyPlan | None = None
    newer: AnyPlan | None = None
    overtaken: set[str] = field(default_factory=set)
