"""Lives that once went wrong, or that find a fault which few random ones find."""

from collections.abc import Sequence
from functools import partial

from tests.faults.lives import steps as s
from tests.faults.lives.jobs import Setting
from tests.faults.lives.machines import Fault
from tests.faults.lives.plans import Both, Plan

_quiet = partial(Setting, producers=("none", "none"), shown="none")
_OFTEN = _quiet(Plan("totals"), checkpoint_epochs=1)

_BEGUN = (s.Write("d.a", ((1, 0, 1, 0), (2, 1, 2, 0))), s.Begin("main"))


def _script(setting: Setting, *steps: s.Step) -> tuple[Setting, Sequence[s.Step]]:
    return setting, steps


def _killed(step: s.Step, at: int, path: str = "") -> s.Step:
    return s.Faulted(step, Fault("kill", at, path))


def _slept(step: s.Step, at: int, path: str = "") -> s.Step:
    return s.Faulted(step, Fault("sleep", at, path))


SCRIPTS = {
    "a start that slept is made before the reader of its result is asked": _script(
        Setting(
            Plan("filter"),
            layout="moving",
            producers=("lookup", "none"),
            shown="none",
            trigger="available_now",
        ),
        s.Write("d.a", ((4, 0, 1, 0), (2, 1, 0, 0))),
        s.Begin("main"),
        s.Begin("reader"),
        _slept(s.Write("d.a", ((3, 1, 2, 1),)), 1),
        _killed(s.Resume("main"), 6),
        s.Wake(),
        s.Rescale("main", 2),
    ),
    "a beginning that slept lets go of nothing that the next one holds": _script(
        Setting(
            Both((Plan("outer"), Plan("outer"))),
            layout="moving",
            producers=("none", "none"),
            shown="input",
            spread="dynamic",
            form="insert",
        ),
        s.Drop("main"),
        _slept(s.Begin("main", Both((Plan("outer", 4), Plan("outer", 4))), replace=True), 57),
        s.Wake(),
        s.Resume("main"),
    ),
    "a start that slept does not take over from a later one": _script(
        _quiet(Plan("totals"), layout="moving", form="insert", trigger="available_now"),
        s.Write("d.a", ((0, 0, 4, 1), (1, 0, 1, 1))),
        s.Begin("main"),
        s.Verify("main"),
        s.Expire("d.a"),
        _slept(s.Begin("second"), 101),
        s.Resume("main"),
        _killed(s.Begin("reader"), 40),
        _killed(s.Resume("main"), 2),
        s.Resume("reader"),
        s.Resume("second"),
        s.Wake(),
    ),
    "a drop that slept leaves the next query of the name": _script(
        _quiet(Plan("totals"), layout="moving", spread="dynamic", checkpoint_epochs=1),
        s.Write("d.a", ((3, 2, 8, 1), (0, 0, 3, 0), (5, 2, 7, 0))),
        s.Write("d.a", ((0, 1, 4, 1), (2, 1, 6, 1)), ((5, 2, 7, 0),)),
        s.Begin("main"),
        _killed(s.Write("d.a", ((3, 1, 1, 1), (1, 0, 1, 0), (0, 0, 1, 0), (4, 0, 3, 1))), 2),
        s.Write("d.a", ((3, 1, 1, 1),), ((2, 1, 6, 1), (4, 0, 3, 1))),
        s.Write("d.a", ((4, 1, 1, 1), (3, 2, 3, 1), (0, 1, 0, 0)), ((1, 0, 1, 0),)),
        _slept(s.Drop("main"), 42),
        s.Begin("main"),
        s.Wake(),
    ),
    "who slept as it opened a query leaves no failure of it": _script(
        _quiet(
            Plan("totals"), layout="moving", spread="parted", trigger="available_now", apart=True
        ),
        s.Write("d.a", ((0, 1, 8, 0), (5, 1, 1, 0), (3, 2, 1, 1), (1, 2, 5, 1))),
        s.Begin("main"),
        s.Begin("reader"),
        s.Verify("main"),
        s.Write("d.a", ((3, 0, 1, 1), (1, 1, 5, 1), (2, 2, 7, 0))),
        _slept(s.DropPartition("d.a", 0), 30),
        s.Resume("main"),
        _killed(s.Stop("main"), 40),
        _slept(s.Write("d.a", ((3, 1, 6, 1), (2, 0, 6, 0), (4, 1, 0, 1))), 132),
        s.Resume("main"),
        s.Wake(),
    ),
    "a query that slept notices that its source was rolled back": _script(
        Setting(
            Plan("groups"), producers=("none", "lookup"), shown="none", spread="dynamic", apart=True
        ),
        s.Write("d.a", ((4, 2, 5, 0), (0, 0, 2, 0))),
        s.Begin("main"),
        _slept(s.Write("d.a", ((1, 2, 6, 0), (4, 2, 3, 0)), ((0, 0, 2, 0),)), 142),
        s.RollBackSource("d.a", 6),
        s.Write("d.a", ((2, 0, 8, 0), (4, 2, 2, 0), (0, 0, 6, 0), (1, 2, 0, 0))),
        s.Wake(),
    ),
    "a savepoint is gone back to when its sources would have expired": _script(
        _OFTEN,
        *_BEGUN,
        s.Savepoint("main", "s1"),
        s.Write("d.a", ((3, 0, 3, 0),)),
        s.Write("d.a", ((4, 1, 4, 0), (1, 1, 6, 0))),
        s.Expire("d.a"),
        s.GoBack("main", "s1"),
    ),
    "a checkpoint that slept is not taken for that of a later run": _script(
        _OFTEN,
        *_BEGUN,
        _slept(s.Write("d.a", ((3, 0, 3, 0),)), 1, "checkpoints/"),
        _killed(s.Resume("main"), 2, "checkpoints/"),
        s.Wake(),
        s.Resume("main"),
        s.Write("d.a", ((4, 1, 4, 0), (1, 1, 6, 0))),
    ),
    "a folder that is an older copy does not go on": _script(
        _OFTEN,
        *_BEGUN,
        s.Copy("main"),
        s.Write("d.a", ((3, 0, 3, 0),)),
        s.Write("d.a", ((4, 1, 4, 0), (1, 1, 6, 0))),
        s.Stop("main"),
        s.Restore("main", ""),
        s.Resume("main"),
        s.Write("d.a", ((5, 2, 5, 0),)),
    ),
    "a run that a sleeper cut off goes on": _script(
        _OFTEN,
        s.Write("d.a", ((1, 0, 1, 0), (5, 2, 8, 0))),
        s.Begin("main"),
        s.Kill("main"),
        _slept(s.Resume("main"), 1, "d.db/r/writer/"),
        s.Resume("main"),
        s.Wake(),
        s.Write("d.a", ((1, 1, 8, 1),)),
    ),
    "a stop that slept before it noted its wish stops what runs when it wakes": _script(
        Setting(Plan("filter"), producers=("none", "lookup"), shown="none"),
        s.Begin("main"),
        _slept(s.Stop("main"), 1, "/wanted-"),
        s.Resume("main"),
        s.Wake(),
        s.Resume("main"),
        s.Write("d.a", ((1, 0, 1, 0),)),
    ),
    "verify of a query that has read nothing finds nothing missing": _script(
        Setting(Plan("filter"), layout="moving", producers=("full-compaction", "lookup")),
        s.Write("d.a", ((0, 1, 2, 1), (4, 2, 0, 1))),
        s.Write("d.a", ((4, 1, 7, 1), (5, 1, 4, 1)), ((0, 1, 2, 1),)),
        s.Expire("d.a"),
        s.Begin("main", Plan("filter", 4)),
        s.Write("d.a", ((5, 2, 1, 0), (2, 1, 0, 0), (0, 0, 2, 0), (4, 2, 2, 1))),
        s.Verify("main"),
    ),
    "a query that goes on over a source that was rolled back has read what it holds then": _script(
        Setting(Plan("groups"), layout="moving", checkpoint_epochs=1),
        s.Write("d.a", ((3, 2, 1, 0), (2, 0, 3, 0), (4, 0, 7, 0))),
        s.Write("d.a", ((4, 1, 8, 0),)),
        s.Begin("main"),
        s.Kill("main"),
        s.Write("d.a", ((0, 0, 8, 1),)),
        s.RollBackSource("d.a", 3),
        s.Resume("main"),
        s.Write("d.a", ((0, 2, 0, 1),), ((4, 1, 8, 0), (3, 2, 1, 0))),
        s.DropAndAddColumn("d.a"),
    ),
    "rows of an earlier query stay until the next one of the name can read": _script(
        Setting(
            Plan("totals"),
            layout="parted",
            producers=("lookup", "none"),
            spread="dynamic",
            form="insert",
            checkpoint_epochs=1,
        ),
        s.Write("d.a", ((5, 0, 0, 1), (5, 1, 3, 0))),
        s.Write("d.a", ((1, 0, 7, 1),)),
        s.Begin("main"),
        s.RollBackSource("d.a", 2),
        s.Drop("main"),
        s.Expire("d.a"),
        s.Begin("main", Plan("totals", 7)),
        s.Write("d.a", ((2, 1, 1, 0),)),
    ),
    "an upgrade that slept is left to the run that goes on elsewhere": _script(
        _quiet(Plan("filter")),
        s.Write("d.a", ((0, 1, 5, 1),)),
        s.Begin("main"),
        _slept(s.Upgrade("main", Plan("filter", 4)), 1, "/upgrade.json"),
        s.Accept("main"),
        s.Write("d.a", ((3, 1, 0, 0),)),
        s.Resume("main"),
        s.Wake(),
        s.Write("d.a", ((2, 2, 1, 1),)),
    ),
    "a query reads one source while the other one tells of nothing": _script(
        Setting(Plan("absent"), layout="moving", producers=("lookup", "full-compaction")),
        s.Write("d.b", ((1, 2, 7, 1), (0, 1, 4, 1))),
        s.Write("d.b", ((4, 1, 0, 0), (5, 0, 5, 1), (3, 0, 7, 0))),
        s.Expire("d.b"),
        s.Write("d.a", ((1, 0, 1, 0), (5, 2, 8, 0))),
        s.Begin("main", Plan("absent", 7)),
        s.Write("d.b", ((1, 1, 2, 0),)),
    ),
    "a savepoint of one of two queries that share a result looks at its own commits": _script(
        Setting(
            Plan("groups"),
            layout="moving",
            shown="none",
            spread="parted",
            form="insert",
            checkpoint_epochs=2,
        ),
        s.Begin("main"),
        s.Begin("second"),
        s.Write("d.b", ((5, 1, 8, 1), (4, 1, 7, 0), (1, 0, 6, 1), (0, 2, 8, 1))),
        s.Resume("main"),
        s.Savepoint("main", "s1"),
    ),
    "a start that slept does not run the query that was begun anew meanwhile": _script(
        _quiet(Plan("totals"), layout="moving"),
        s.Write("d.a", ((4, 0, 1, 0), (6, 1, 5, 0))),
        s.Begin("main"),
        s.Kill("main"),
        _slept(s.Resume("main"), 27),
        s.Drop("main"),
        s.Begin("main", Plan("totals", 4)),
        s.Wake(),
    ),
    "a savepoint is not made of a result that is ahead of its checkpoint": _script(
        _quiet(
            Plan("totals"),
            layout="parted",
            spread="dynamic",
            form="insert",
            checkpoint_epochs=2,
            apart=True,
        ),
        s.Begin("main"),
        s.Write("d.a", ((3, 0, 0, 1), (0, 1, 4, 1), (3, 1, 8, 0))),
        _killed(s.Write("d.a", ((4, 1, 6, 1), (0, 2, 3, 1)), ((3, 1, 8, 0), (3, 0, 0, 1))), 19),
        _killed(s.Savepoint("main", "s1"), 5),
        s.GoBack("main", "s1"),
    ),
    "a run whose checkpoints others deleted sees so when it looks": _script(
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
        s.Write("d.a", ((3, 1, 4, 0), (3, 1, 6, 1), (5, 1, 3, 1))),
        s.Begin("main"),
        _slept(s.Upgrade("main", Plan("totals", 4)), 27),
        s.Begin("main", Plan("totals", 7), replace=True),
        s.Wake(),
    ),
    "a savepoint of a query that is dropped meanwhile says so": _script(
        _quiet(
            Both((Plan("filter"), Plan("groups"))),
            spread="two",
            form="insert",
            checkpoint_epochs=2,
            trigger="available_now",
            counts=True,
        ),
        s.Write("d.a", ((5, 1, 5, 1), (1, 1, 1, 0), (2, 0, 8, 1))),
        s.Begin("main"),
        _slept(s.Savepoint("main", "s1"), 47),
        s.Drop("main"),
        s.Wake(),
    ),
    "rows that users write before a query that was begun anew has run stay": _script(
        Setting(Both((Plan("filter"), Plan("totals"))), form="insert", apart=True),
        s.Write("d.a", ((1, 2, 2, 1), (5, 0, 0, 1))),
        s.Begin("main"),
        s.Drop("main"),
        _killed(s.Begin("main"), 1, "checkpoints/"),
        s.UsersWrite((1004,)),
        s.Resume("main"),
    ),
    "a query that goes back takes along what came and went since": _script(
        _OFTEN,
        *_BEGUN,
        s.Savepoint("main", "s1"),
        s.Write("d.a", ((1, 0, 6, 0),)),
        s.Stop("main"),
        s.Write("d.a", ((1, 0, 1, 0),)),
        s.GoBack("main", "s1"),
    ),
    "a commit that slept is not made when the query was begun anew": _script(
        _OFTEN,
        *_BEGUN,
        _slept(s.Write("d.a", ((1, 0, 7, 0),)), 1, "d.db/r/snapshot/"),
        s.Drop("main"),
        s.Begin("main", Plan("totals", 4)),
        s.Wake(),
    ),
    "a process that slept at rest does not go on with a query that was begun anew": _script(
        _OFTEN,
        *_BEGUN,
        s.Sleep("main"),
        s.Drop("main"),
        s.Begin("main", Plan("totals", 4)),
        s.Write("d.a", ((1, 0, 7, 0), (3, 0, 2, 0))),
        s.Wake(),
        s.Write("d.a", ((4, 2, 3, 0),)),
    ),
}
