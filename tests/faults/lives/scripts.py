"""Lives that once went wrong, or that find a fault which few random ones find."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.lives.jobs import Setting
from tests.faults.lives.machines import Fault
from tests.faults.lives.plans import Both, Plan
from tests.faults.lives.steps import (
    Accept,
    Begin,
    Copy,
    Drop,
    DropAndAddColumn,
    DropPartition,
    Expire,
    Faulted,
    GoBack,
    Kill,
    Rescale,
    Restore,
    Resume,
    RollBackSource,
    Savepoint,
    Sleep,
    Step,
    Stop,
    Upgrade,
    UsersWrite,
    Verify,
    Wake,
    Write,
)

_OFTEN = Setting(Plan("totals"), producers=("none", "none"), shown="none", checkpoint_epochs=1)

SCRIPTS: dict[str, tuple[Setting, Sequence[Step]]] = {
    "a start that slept is made before the reader of its result is asked": (
        Setting(
            plan=Plan(kind="filter"),
            layout="moving",
            producers=("lookup", "none"),
            shown="none",
            form="materialize",
            trigger="available_now",
        ),
        [
            Write(source="d.a", rows=((4, 0, 1, 0), (2, 1, 0, 0))),
            Begin(job="main", plan=Plan(kind="filter")),
            Begin(job="reader"),
            Faulted(
                step=Write(source="d.a", rows=((3, 1, 2, 1),)), fault=Fault(fate="sleep", at=1)
            ),
            Faulted(step=Resume(job="main"), fault=Fault(fate="kill", at=6)),
            Wake(),
            Rescale(job="main", workers=2),
        ],
    ),
    "a beginning that slept lets go of nothing that the next one holds": (
        Setting(
            plan=Both(parts=(Plan(kind="outer"), Plan(kind="outer"))),
            layout="moving",
            producers=("none", "none"),
            shown="input",
            spread="dynamic",
            form="insert",
        ),
        [
            Drop(job="main"),
            Faulted(
                step=Begin(
                    job="main",
                    plan=Both(parts=(Plan(kind="outer", bound=4), Plan(kind="outer", bound=4))),
                    replace=True,
                ),
                fault=Fault(fate="sleep", at=57),
            ),
            Wake(),
            Resume(job="main"),
        ],
    ),
    "a start that slept does not take over from a later one": (
        Setting(
            plan=Plan(kind="totals"),
            layout="moving",
            producers=("none", "none"),
            shown="none",
            form="insert",
            trigger="available_now",
        ),
        [
            Write(source="d.a", rows=((0, 0, 4, 1), (1, 0, 1, 1))),
            Begin(job="main", plan=Plan(kind="totals")),
            Verify(job="main"),
            Expire(source="d.a", retained=1),
            Faulted(step=Begin(job="second"), fault=Fault(fate="sleep", at=101)),
            Resume(job="main"),
            Faulted(step=Begin(job="reader"), fault=Fault(fate="kill", at=40)),
            Faulted(step=Resume(job="main"), fault=Fault(fate="kill", at=2)),
            Resume(job="reader"),
            Resume(job="second"),
            Wake(),
        ],
    ),
    "a drop that slept leaves the next query of the name": (
        Setting(
            plan=Plan(kind="totals"),
            layout="moving",
            producers=("none", "none"),
            shown="none",
            spread="dynamic",
            form="materialize",
            checkpoint_epochs=1,
        ),
        [
            Write(source="d.a", rows=((3, 2, 8, 1), (0, 0, 3, 0), (5, 2, 7, 0))),
            Write(source="d.a", rows=((0, 1, 4, 1), (2, 1, 6, 1)), deleted=((5, 2, 7, 0),)),
            Begin(job="main", plan=Plan(kind="totals")),
            Faulted(
                step=Write(
                    source="d.a", rows=((3, 1, 1, 1), (1, 0, 1, 0), (0, 0, 1, 0), (4, 0, 3, 1))
                ),
                fault=Fault(fate="kill", at=2),
            ),
            Write(source="d.a", rows=((3, 1, 1, 1),), deleted=((2, 1, 6, 1), (4, 0, 3, 1))),
            Write(
                source="d.a",
                rows=((4, 1, 1, 1), (3, 2, 3, 1), (0, 1, 0, 0)),
                deleted=((1, 0, 1, 0),),
            ),
            Faulted(step=Drop(job="main"), fault=Fault(fate="sleep", at=42)),
            Begin(job="main", plan=Plan(kind="totals")),
            Wake(),
        ],
    ),
    "who slept as it opened a query leaves no failure of it": (
        Setting(
            plan=Plan(kind="totals"),
            layout="moving",
            producers=("none", "none"),
            shown="none",
            spread="parted",
            form="materialize",
            trigger="available_now",
            apart=True,
        ),
        [
            Write(source="d.a", rows=((0, 1, 8, 0), (5, 1, 1, 0), (3, 2, 1, 1), (1, 2, 5, 1))),
            Begin(job="main", plan=Plan(kind="totals")),
            Begin(job="reader"),
            Verify(job="main"),
            Write(source="d.a", rows=((3, 0, 1, 1), (1, 1, 5, 1), (2, 2, 7, 0))),
            Faulted(
                step=DropPartition(source="d.a", partition=0), fault=Fault(fate="sleep", at=30)
            ),
            Resume(job="main"),
            Faulted(step=Stop(job="main"), fault=Fault(fate="kill", at=40)),
            Faulted(
                step=Write(source="d.a", rows=((3, 1, 6, 1), (2, 0, 6, 0), (4, 1, 0, 1))),
                fault=Fault(fate="sleep", at=132),
            ),
            Resume(job="main"),
            Wake(),
        ],
    ),
    "a query that slept notices that its source was rolled back": (
        Setting(
            plan=Plan(kind="groups"),
            layout="plain",
            producers=("none", "lookup"),
            shown="none",
            spread="dynamic",
            form="materialize",
            apart=True,
        ),
        [
            Write(source="d.a", rows=((4, 2, 5, 0), (0, 0, 2, 0))),
            Begin(job="main", plan=Plan(kind="groups")),
            Faulted(
                step=Write(
                    source="d.a", rows=((1, 2, 6, 0), (4, 2, 3, 0)), deleted=((0, 0, 2, 0),)
                ),
                fault=Fault(fate="sleep", at=142),
            ),
            RollBackSource(source="d.a", place=6),
            Write(source="d.a", rows=((2, 0, 8, 0), (4, 2, 2, 0), (0, 0, 6, 0), (1, 2, 0, 0))),
            Wake(),
        ],
    ),
    "a savepoint is gone back to when its sources would have expired": (
        _OFTEN,
        [
            Write("d.a", ((1, 0, 1, 0), (2, 1, 2, 0))),
            Begin("main", Plan("totals")),
            Savepoint("main", "s1"),
            Write("d.a", ((3, 0, 3, 0),)),
            Write("d.a", ((4, 1, 4, 0), (1, 1, 6, 0))),
            Expire("d.a"),
            GoBack("main", "s1"),
        ],
    ),
    "a checkpoint that slept is not taken for that of a later run": (
        _OFTEN,
        [
            Write("d.a", ((1, 0, 1, 0), (2, 1, 2, 0))),
            Begin("main", Plan("totals")),
            Faulted(Write("d.a", ((3, 0, 3, 0),)), Fault("sleep", 1, "checkpoints/")),
            Faulted(Resume("main"), Fault("kill", 2, "checkpoints/")),
            Wake(),
            Resume("main"),
            Write("d.a", ((4, 1, 4, 0), (1, 1, 6, 0))),
        ],
    ),
    "a folder that is an older copy does not go on": (
        _OFTEN,
        [
            Write("d.a", ((1, 0, 1, 0), (2, 1, 2, 0))),
            Begin("main", Plan("totals")),
            Copy("main"),
            Write("d.a", ((3, 0, 3, 0),)),
            Write("d.a", ((4, 1, 4, 0), (1, 1, 6, 0))),
            Stop("main"),
            Restore("main", ""),
            Resume("main"),
            Write("d.a", ((5, 2, 5, 0),)),
        ],
    ),
    "a run that a sleeper cut off goes on": (
        _OFTEN,
        [
            Write("d.a", ((1, 0, 1, 0), (5, 2, 8, 0))),
            Begin("main", Plan("totals")),
            Kill("main"),
            Faulted(Resume("main"), Fault("sleep", 1, "d.db/r/writer/")),
            Resume("main"),
            Wake(),
            Write("d.a", ((1, 1, 8, 1),)),
        ],
    ),
    "a stop that slept before it noted its wish stops what runs when it wakes": (
        Setting(Plan("filter"), producers=("none", "lookup"), shown="none"),
        [
            Begin("main", Plan("filter")),
            Faulted(Stop("main"), Fault("sleep", 1, "/wanted-")),
            Resume("main"),
            Wake(),
            Resume("main"),
            Write("d.a", ((1, 0, 1, 0),)),
        ],
    ),
    "verify of a query that has read nothing finds nothing missing": (
        Setting(Plan("filter"), layout="moving", producers=("full-compaction", "lookup")),
        [
            Write("d.a", ((0, 1, 2, 1), (4, 2, 0, 1))),
            Write("d.a", ((4, 1, 7, 1), (5, 1, 4, 1)), ((0, 1, 2, 1),)),
            Expire("d.a", 1),
            Begin("main", Plan("filter", 4)),
            Write("d.a", ((5, 2, 1, 0), (2, 1, 0, 0), (0, 0, 2, 0), (4, 2, 2, 1))),
            Verify("main"),
        ],
    ),
    "a query that goes on over a source that was rolled back has read what it holds then": (
        Setting(
            Plan("groups"), layout="moving", producers=("lookup", "lookup"), checkpoint_epochs=1
        ),
        [
            Write("d.a", ((3, 2, 1, 0), (2, 0, 3, 0), (4, 0, 7, 0))),
            Write("d.a", ((4, 1, 8, 0),)),
            Begin("main", Plan("groups")),
            Kill("main"),
            Write("d.a", ((0, 0, 8, 1),)),
            RollBackSource("d.a", 3),
            Resume("main"),
            Write("d.a", ((0, 2, 0, 1),), ((4, 1, 8, 0), (3, 2, 1, 0))),
            DropAndAddColumn("d.a"),
        ],
    ),
    "rows of an earlier query stay until the next one of the name can read": (
        Setting(
            Plan("totals"),
            layout="parted",
            producers=("lookup", "none"),
            shown="lookup",
            spread="dynamic",
            form="insert",
            checkpoint_epochs=1,
        ),
        [
            Write("d.a", ((5, 0, 0, 1), (5, 1, 3, 0))),
            Write("d.a", ((1, 0, 7, 1),)),
            Begin("main", Plan("totals")),
            RollBackSource("d.a", 2),
            Drop("main"),
            Expire("d.a"),
            Begin("main", Plan("totals", 7)),
            Write("d.a", ((2, 1, 1, 0),)),
        ],
    ),
    "an upgrade that slept is left to the run that goes on elsewhere": (
        Setting(Plan("filter"), producers=("none", "none"), shown="none"),
        [
            Write("d.a", ((0, 1, 5, 1),)),
            Begin("main", Plan("filter")),
            Faulted(Upgrade("main", Plan("filter", 4)), Fault("sleep", 1, "/upgrade.json")),
            Accept("main"),
            Write("d.a", ((3, 1, 0, 0),)),
            Resume("main"),
            Wake(),
            Write("d.a", ((2, 2, 1, 1),)),
        ],
    ),
    "a query reads one source while the other one tells of nothing": (
        Setting(Plan("absent"), layout="moving", producers=("lookup", "full-compaction")),
        [
            Write("d.b", ((1, 2, 7, 1), (0, 1, 4, 1))),
            Write("d.b", ((4, 1, 0, 0), (5, 0, 5, 1), (3, 0, 7, 0))),
            Expire("d.b", 1),
            Write("d.a", ((1, 0, 1, 0), (5, 2, 8, 0))),
            Begin("main", Plan("absent", 7)),
            Write("d.b", ((1, 1, 2, 0),)),
        ],
    ),
    "a savepoint of one of two queries that share a result looks at its own commits": (
        Setting(
            Plan("groups"),
            layout="moving",
            producers=("lookup", "lookup"),
            shown="none",
            spread="parted",
            form="insert",
            checkpoint_epochs=2,
        ),
        [
            Begin("main", Plan("groups")),
            Begin("second"),
            Write("d.b", ((5, 1, 8, 1), (4, 1, 7, 0), (1, 0, 6, 1), (0, 2, 8, 1))),
            Resume("main"),
            Savepoint("main", "s1"),
        ],
    ),
    "a start that slept does not run the query that was begun anew meanwhile": (
        Setting(
            Plan("totals"),
            layout="moving",
            producers=("none", "none"),
            shown="none",
            checkpoint_epochs=100,
        ),
        [
            Write("d.a", ((4, 0, 1, 0), (6, 1, 5, 0))),
            Begin("main", Plan("totals")),
            Kill("main"),
            Faulted(Resume("main"), Fault("sleep", 27)),
            Drop("main"),
            Begin("main", Plan("totals", 4)),
            Wake(),
        ],
    ),
    "a savepoint is not made of a result that is ahead of its checkpoint": (
        Setting(
            Plan("totals"),
            layout="parted",
            producers=("none", "none"),
            shown="none",
            spread="dynamic",
            form="insert",
            checkpoint_epochs=2,
            apart=True,
        ),
        [
            Begin("main", Plan("totals")),
            Write("d.a", ((3, 0, 0, 1), (0, 1, 4, 1), (3, 1, 8, 0))),
            Faulted(
                Write("d.a", ((4, 1, 6, 1), (0, 2, 3, 1)), ((3, 1, 8, 0), (3, 0, 0, 1))),
                Fault("kill", 19),
            ),
            Faulted(Savepoint("main", "s1"), Fault("kill", 5)),
            GoBack("main", "s1"),
        ],
    ),
    "a run whose checkpoints others deleted sees so when it looks": (
        Setting(
            Plan("totals"),
            layout="parted",
            producers=("none", "lookup"),
            shown="input",
            spread="parted",
            form="insert",
            checkpoint_epochs=2,
            apart=True,
        ),
        [
            Write("d.a", ((3, 1, 4, 0), (3, 1, 6, 1), (5, 1, 3, 1))),
            Begin("main", Plan("totals")),
            Faulted(Upgrade("main", Plan("totals", 4)), Fault("sleep", 27)),
            Begin("main", Plan("totals", 7), replace=True),
            Wake(),
        ],
    ),
    "a savepoint of a query that is dropped meanwhile says so": (
        Setting(
            Both((Plan("filter"), Plan("groups"))),
            producers=("none", "none"),
            shown="none",
            spread="two",
            form="insert",
            checkpoint_epochs=2,
            trigger="available_now",
            counts=True,
        ),
        [
            Write("d.a", ((5, 1, 5, 1), (1, 1, 1, 0), (2, 0, 8, 1))),
            Begin("main", Both((Plan("filter"), Plan("groups")))),
            Faulted(Savepoint("main", "s1"), Fault("sleep", 47)),
            Drop("main"),
            Wake(),
        ],
    ),
    "rows that users write before a query that was begun anew has run stay": (
        Setting(
            Both((Plan("filter"), Plan("totals"))),
            producers=("lookup", "lookup"),
            form="insert",
            checkpoint_epochs=100,
            apart=True,
        ),
        [
            Write("d.a", ((1, 2, 2, 1), (5, 0, 0, 1))),
            Begin("main", Both((Plan("filter"), Plan("totals")))),
            Drop("main"),
            Faulted(
                Begin("main", Both((Plan("filter"), Plan("totals")))),
                Fault("kill", 1, "checkpoints/"),
            ),
            UsersWrite((1004,)),
            Resume("main"),
        ],
    ),
    "a query that goes back takes along what came and went since": (
        _OFTEN,
        [
            Write("d.a", ((1, 0, 1, 0), (2, 1, 2, 0))),
            Begin("main", Plan("totals")),
            Savepoint("main", "s1"),
            Write("d.a", ((1, 0, 6, 0),)),
            Stop("main"),
            Write("d.a", ((1, 0, 1, 0),)),
            GoBack("main", "s1"),
        ],
    ),
    "a commit that slept is not made when the query was begun anew": (
        _OFTEN,
        [
            Write("d.a", ((1, 0, 1, 0), (2, 1, 2, 0))),
            Begin("main", Plan("totals")),
            Faulted(Write("d.a", ((1, 0, 7, 0),)), Fault("sleep", 1, "d.db/r/snapshot/")),
            Drop("main"),
            Begin("main", Plan("totals", 4)),
            Wake(),
        ],
    ),
    "a process that slept at rest does not go on with a query that was begun anew": (
        _OFTEN,
        [
            Write("d.a", ((1, 0, 1, 0), (2, 1, 2, 0))),
            Begin("main", Plan("totals")),
            Sleep("main"),
            Drop("main"),
            Begin("main", Plan("totals", 4)),
            Write("d.a", ((1, 0, 7, 0), (3, 0, 2, 0))),
            Wake(),
            Write("d.a", ((4, 2, 3, 0),)),
        ],
    ),
}
