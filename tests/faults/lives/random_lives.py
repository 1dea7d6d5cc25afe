"""Lives by numbers: made at random, played, told as scripts, made shorter."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.faults.lives import checks
from tests.faults.lives import steps as s
from tests.faults.lives.books import Producer
from tests.faults.lives.checks import Wrong
from tests.faults.lives.jobs import MAIN, READER, RESULT, SECOND, AnyPlan, Setting
from tests.faults.lives.life import Life, life_of
from tests.faults.lives.machines import Fate, Fault
from tests.faults.lives.plans import KINDS, A, Both, Plan, Row

STEPS = 10
"""Of a life, beside the two to four with which it begins."""
_KEYS, _GROUPS, _VALUES, _PARTITIONS = 6, 3, 9, 2
_BOUNDS = (100, 4, 7)
_RARE = ("checkpoints/", "checkpoints/", "epochs/", "consumer/", "savepoints/")


def setting_of(rng: random.Random) -> Setting:
    """Choose what a life begins with."""
    form = "insert" if rng.random() < 0.4 else "materialize"
    return Setting(
        _plan_of(rng, form),
        rng.choice(("plain", "parted", "moving")),
        (_producer(rng), _producer(rng)),
        rng.choices(("lookup", "none", "input"), (4, 4, 1))[0],
        rng.choices(("one", "two", "dynamic", "parted"), (4, 1, 1, 1))[0],
        form,  # type: ignore[arg-type]
        3 if rng.random() < 0.12 else 1,
        rng.choice((1, 2, 100)),
        rng.choice(("changes", "changes", "changes", "available_now")),
        counts=rng.random() < 0.2,
        apart=rng.random() < 0.3,
    )


def _plan_of(rng: random.Random, form: str) -> Plan | Both:
    kinds = {name: each.weight for name, each in KINDS.items() if each.key or form != "insert"}

    def plan() -> Plan:
        return Plan(rng.choices([*kinds], [*kinds.values()])[0])

    if form == "insert" and rng.random() < 0.3:
        return Both((plan(), plan()))
    return plan()


def _producer(rng: random.Random) -> Producer:
    return rng.choices(("lookup", "none", "full-compaction"), (4, 5, 1))[0]


LEFT_OUT: set[str] = set()
"""What lives do without: ``moves`` of keys to other partitions, ``overwrites`` of sources."""


class Chooser:
    """Chooses the next step of a life."""

    def __init__(self, rng: random.Random, life: Life) -> None:
        self._rng = rng
        self._life = life
        self._names = 0

    def first(self) -> Iterator[s.Step]:
        """Give the steps with which a life begins."""
        rng, plan = self._rng, self._life.setting.plan
        if rng.random() < 0.8:
            yield self._write()
        if rng.random() < 0.5:
            yield self._write()
        yield s.Begin(MAIN, plan)
        if rng.random() < 0.9:
            yield s.Begin(READER)

    def next(self) -> s.Step:
        """Choose one that may happen now."""
        while True:
            step = self._choose()
            if step.can(self._life) and not self._is_left_out(step):
                return step

    @staticmethod
    def _is_left_out(step: s.Step) -> bool:
        inner = step.step if isinstance(step, s.Faulted) else step
        return "overwrites" in LEFT_OUT and isinstance(inner, s.Overwrite | s.DropPartition)

    def _choose(self) -> s.Step:
        rng = self._rng
        makers, weights = zip(*self._weights().items(), strict=True)
        step: s.Step = rng.choices(makers, weights)[0]()
        if rng.random() < 0.3 and not isinstance(step, s.Wake | s.Kill | s.Sleep | s.Verify):
            return s.Faulted(step, self._fault())
        return step

    def _fault(self) -> Fault:
        rng = self._rng
        fate: Fate = "kill" if rng.random() < 0.55 else "sleep"
        if rng.random() < 0.25:  # at what few calls of a life are
            return Fault(fate, rng.choice((1, 1, 1, 2)), rng.choice(_RARE))
        return Fault(fate, 1 + int(rng.expovariate(1 / (12 if fate == "kill" else 60))))

    def _weights(self) -> dict[Callable[[], s.Step], float]:
        life = self._life
        main, reader, second = (life.jobs[name] for name in (MAIN, READER, SECOND))
        is_down = main.exists and not main.is_running
        begins = not main.exists or bool(main.excuses)
        return {
            self._write: 8,
            self._overwrite: 1,
            lambda: s.DropPartition(self._source(), self._partition()): 0.5,
            lambda: s.Compact(self._source()): 0.4,
            lambda: s.Expire(self._source()): 3 if main.savepoints else 1.2,
            lambda: s.AddColumn(self._source(), "more"): 0.2,
            lambda: s.DropAndAddColumn(self._source()): 0.15,
            lambda: s.MakeAnew(self._source()): 0.25,
            lambda: s.RollBackSource(self._source(), self._rng.randrange(9)): 0.25,
            lambda: s.Kill(MAIN): 3 if life.zombies else 1,
            lambda: s.Sleep(MAIN): 0.7,
            s.Wake: 3 if life.sleepers else 0,
            lambda: s.Stop(MAIN): 0.7,
            lambda: s.Stop(READER): 0.3,
            lambda: s.Resume(MAIN): 8 if is_down else 0,
            lambda: s.Resume(READER): 6 if reader.exists and not reader.is_running else 0,
            self._savepoint: 1.2,
            self._go_back: 3 if main.savepoints else 0,
            lambda: s.Drop(MAIN): 0.7 if not main.excuses else 3,
            lambda: s.Drop(READER): 0.1 if not reader.excuses else 2,
            self._begin: 8 if begins else 0.2,
            lambda: s.Begin(READER): 4 if not reader.exists else 0,
            self._upgrade: 0.8,
            lambda: s.Accept(MAIN): 1.5 if main.older else 0,
            lambda: s.RollBack(MAIN): 1.5 if main.older else 0,
            lambda: s.Rescale(MAIN, self._rng.choice((1, 2, 3))): 0.4,
            lambda: s.Copy(MAIN): 0.4,
            lambda: s.Restore(MAIN, self._rng.choice(("", "checkpoints/", "epochs/"))): (
                2 if main.copies else 0
            ),
            lambda: s.Remove(MAIN, self._rng.choice(("checkpoints/", "epochs/", "wanted"))): 0.15,
            lambda: s.Verify(MAIN): 1,
            lambda: s.Wait(MAIN): 0.3,
            self._users_write: 1.5,
            lambda: s.Begin(SECOND): 1 if not second.exists else 0,
            lambda: s.Resume(SECOND): 4 if second.exists and not second.is_running else 0,
            lambda: s.Drop(SECOND): 0.3 if not second.excuses else 2,
        }

    def _source(self) -> str:
        second = self._life.jobs[SECOND]
        names = {*self._life.setting.plan.sources, *(second.sources if second.exists else ())}
        return self._rng.choice(sorted(names))

    def _partition(self) -> int:
        return self._rng.randrange(_PARTITIONS)

    def _row(self) -> Row:
        rng = self._rng
        return (
            rng.randrange(_KEYS),
            rng.randrange(_GROUPS),
            rng.randrange(_VALUES),
            self._partition(),
        )

    def _rows(self, most: int) -> tuple[Row, ...]:
        life = self._life
        rows = [self._row() for _ in range(self._rng.randrange(1, most))]
        key = life.sources[A].key
        return tuple({key(row): row for row in rows}.values())

    def _write(self) -> s.Step:
        rng, name = self._rng, self._source()
        source = self._life.sources[name]
        there = sorted(source.rows.values(), key=repr)
        gone = rng.sample(there, min(len(there), rng.choice((0, 0, 1, 2))))
        rows = self._rows(5)
        if "moves" in LEFT_OUT and source.layout == "moving":
            rows = tuple((k, g, v, k % _PARTITIONS) for k, g, v, _ in rows)
        keys = {source.key(row) for row in rows}
        return s.Write(name, rows, tuple(row for row in gone if source.key(row) not in keys))

    def _overwrite(self) -> s.Step:
        name = self._source()
        if self._life.setting.layout == "parted" and self._rng.random() < 0.7:
            partition = self._partition()
            rows = tuple((k, g, v, partition) for k, g, v, _ in self._rows(4))
            key = self._life.sources[name].key
            return s.Overwrite(name, partition, tuple({key(row): row for row in rows}.values()))
        return s.Overwrite(name, None, self._rows(5))

    def _users_write(self) -> s.Step:
        known = [key[0] for key in self._life.results[RESULT].users]
        number = 1000 + self._rng.randrange(6)
        gone = [each for each in known if each != number and self._rng.random() < 0.3]
        return s.UsersWrite((number,), tuple(gone))

    def _plan(self) -> Plan | Both:
        return self._life.setting.plan.bounded(self._rng.choice(_BOUNDS))

    def _upgrade(self) -> s.Step:
        plan = self._plan()
        return s.Upgrade(MAIN, plan if isinstance(plan, Plan) else plan.parts[0])

    def _savepoint(self) -> s.Step:
        self._names += 1
        return s.Savepoint(MAIN, f"s{self._names}")

    def _go_back(self) -> s.Step:
        return s.GoBack(MAIN, self._rng.choice([*self._life.main.savepoints]))

    def _begin(self) -> s.Step:
        main = self._life.main
        plan: AnyPlan | None = main.plan if self._rng.random() < 0.4 else self._plan()
        return s.Begin(MAIN, plan, replace=main.exists or self._rng.random() < 0.5)


@dataclass(frozen=True)
class Script:
    """A life that was lived."""

    seed: int
    setting: Setting
    steps: tuple[s.Step, ...]
    wrong: str = ""

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.setting}"]
        lines += [f"    {number}. {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([*lines, f"  wrong: {self.wrong}"])

    @property
    def kind(self) -> str:
        """What went wrong, without rows and numbers: tells failures apart."""
        return kind_of(self.wrong)


def kind_of(wrong: str) -> str:
    said = re.sub(r"\[.*?\]|\{.*?\}|\(.*?\)", "…", wrong.split("; verify")[0])
    return re.sub(r"\d+", "N", said)[:110]


def live(seed: int, steps: int = STEPS) -> Script:
    """Live the life of a number, until it ends or something is wrong."""
    rng = random.Random(seed)
    setting = setting_of(rng)
    played: list[s.Step] = []
    with life_of(setting) as life:
        chooser = Chooser(rng, life)
        wrong = ""
        try:
            for step in chooser.first():
                played.append(step)
                life.play(step)
            for _ in range(steps):
                played.append(chooser.next())
                life.play(played[-1])
            checks.verify(life, life.main)
        except Exception as error:
            wrong = said(error)
        return Script(seed, setting, tuple(played), wrong)


def said(error: Exception) -> str:
    return str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"


def play(setting: Setting, steps: Sequence[s.Step]) -> str:
    """Play a script; give what was wrong, or nothing."""
    with life_of(setting) as life:
        try:
            for step in steps:
                life.play(step)
            checks.verify(life, life.main)
        except Exception as error:
            return said(error)
    return ""


def shorter(script: Script) -> Script:
    """Leave out the steps without which it goes wrong in the same way."""
    steps, wrong = list(script.steps), script.wrong
    place = len(steps) - 1
    while place >= 0:
        fewer = steps[:place] + steps[place + 1 :]
        found = play(script.setting, fewer)
        if found and kind_of(found) == script.kind:
            steps, wrong = fewer, found
        elif isinstance(steps[place], s.Faulted):
            plain = [*steps[:place], steps[place].step, *steps[place + 1 :]]
            found = play(script.setting, plain)
            if found and kind_of(found) == script.kind:
                steps, wrong = plain, found
        place -= 1
    return Script(script.seed, script.setting, tuple(steps), wrong)
