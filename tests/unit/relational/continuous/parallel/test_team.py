"""Several workers give what one gives, also when their number changes or one of them fails."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pkray.errors import EvaluationError, QueryFencedError, ServiceUnavailableError
from pkray.relational import Changelog, changelog, query
from pkray.relational.continuous.exchange.mailbox import Letter
from pkray.relational.continuous.log.log import EpochRecord
from pkray.relational.continuous.parallel import team as team_module
from pkray.relational.continuous.parallel.share import Share
from pkray.relational.continuous.parallel.team import Member, Team
from tests.effort import examples
from tests.unit.relational.continuous.histories import RandomHistory
from tests.unit.relational.continuous.parallel.teams import Workers
from tests.unit.relational.continuous.test_run_random_plans import Writer, row, upserts

GROUPS, SEEDS = 4, 24
KINDS = {"id": "INT", "k": "INT", "v": "INT"}


class RandomQuery:
    """A random query over random histories."""

    def __init__(self, seed: int) -> None:
        rng = self._rng = random.Random(seed)
        sources = {
            "plain": changelog(KINDS, mode="all", name="plain"),
            "keyed": changelog(KINDS, mode="all", name="keyed", primary_key=["id"]),
            "upserted": changelog(KINDS, mode="upsert", name="upserted", primary_key=["id"]),
            "added": changelog(KINDS, mode="insert", name="added"),
        }
        self._histories = {
            name: RandomHistory(rng, row, keyed=name in ("keyed", "upserted")) for name in sources
        }
        self.text = Writer(sources).frame(rng, rng.randint(1, 3)).text
        self.relation = query(self.text, **sources)
        self._read = {name: each for name, each in sources.items() if f"FROM {name}" in self.text}

    def push(self, size: int) -> None:
        for name in self._rng.sample(list(self._read), self._rng.randint(1, len(self._read))):
            changes = self._histories[name].epoch(size, inserts=name == "added")
            self._read[name].push(upserts(changes) if name == "upserted" else changes)

    def sizes(self) -> list[int]:
        rng = self._rng
        return [rng.randint(1, 30), 1, rng.choice([0, 3]), rng.randint(5, 60)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("group", range(GROUPS))
def test_three_workers_give_what_the_bounded_run_gives(group: int) -> None:
    for seed in range(group, examples(SEEDS), GROUPS):
        found = RandomQuery(seed)
        workers = Workers(found.relation, 3, memory=1 << random.Random(seed).choice([12, 20]))
        for size in found.sizes():
            found.push(size)
            workers.step()
            workers.check()
        workers.close()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("group", range(GROUPS))
def test_state_goes_on_with_more_and_with_fewer_workers(group: int) -> None:
    for seed in range(group, examples(SEEDS), GROUPS):
        found = RandomQuery(seed)
        workers = Workers(found.relation, 1, memory=1 << random.Random(seed).choice([12, 20]))
        for size, count in zip(found.sizes(), (1, 3, 2, 5), strict=True):
            workers.rescale(count)
            found.push(size)
            workers.step()
            workers.check()
        workers.close()


TOTALS = "SELECT k, SUM(v) AS total, COUNT(DISTINCT v) AS n FROM plain GROUP BY k"


def totals(**given: Any) -> tuple[Changelog, Workers]:
    plain = changelog(KINDS, mode="all", name="plain")
    return plain, Workers(query(TOTALS, plain=plain), **given)


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    numbers = range(first, first + count)
    return [{"_row_kind": "+I", "id": i, "k": i % 40, "v": i % 7} for i in numbers]


def test_each_worker_has_a_share_of_the_rows_and_of_the_state() -> None:
    plain, workers = totals(workers=3)
    plain.push(rows(400))
    workers.step()
    workers.run.checkpoint()
    status = workers.run.status()
    (aggregate,) = (each for each in status["nodes"] if each["type"] == "Aggregate")
    assert status["workers"] == 3
    assert aggregate["rows_in"] == 400
    assert 0 < workers.run.share.nodes()[-1]["rows_in"] < 400
    workers.close()


class FailingShare:
    """Fails when it is to run an epoch, once so many of its parts have been run."""

    def __init__(self, share: Share, error: Exception, parts: int) -> None:
        self._share = share
        self._error = error
        self._parts = parts

    def run(self, record: EpochRecord, results: Any) -> Iterator[Any]:
        for place, part in enumerate(self._share.run(record, results)):
            if place == self._parts:
                raise self._error
            yield part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._share, name)


@pytest.mark.parametrize("parts", [0, 1])
def test_an_error_of_one_worker_ends_the_epoch_in_all(parts: int) -> None:
    error = EvaluationError("1 / 0")
    wrong = {"wrap": lambda share: FailingShare(share, error, parts)}
    plain, workers = totals(workers=3, **wrong)
    plain.push(rows(40))
    with pytest.raises(EvaluationError, match="1 / 0"):
        workers.step()
    workers.close()


@pytest.mark.parametrize("count", [2, 3])
def test_after_an_error_epochs_run_again_by_as_many_workers_as_began_them(count: int) -> None:
    plain, workers = totals(workers=2)
    plain.push(rows(60))
    workers.step()
    workers.run.checkpoint()
    kept, told = +workers.content, len(workers.told)
    plain.push(rows(60, 30))
    workers.step()
    first = workers.told[told:]
    workers.content = kept
    workers.reopen(count)  # nothing was kept of the second epoch but how it was begun
    assert workers.run.workers == 2
    told = len(workers.told)
    workers.step()
    workers.check()
    assert workers.told[told:] == first
    assert workers.run.is_outgrown == (count != 2)
    workers.close()


def test_a_run_that_is_over_does_not_reach_the_workers_of_the_next() -> None:
    member = Member(lambda assigned, peers: pytest.fail("not opened"), lambda to, letter: None)
    member.join(4)
    member.join(6)
    for call in (
        lambda: member.join(5),
        lambda: member.run(4, EpochRecord(9, {}, 0), ()),
        lambda: member.checkpoint(4),
        lambda: member.deliver(Letter(4, 1, 0, None)),
    ):
        with pytest.raises(QueryFencedError, match="took over"):
            call()


class Nobody:
    """A member that does not begin to work."""

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        return Future()

    def check(self, *, is_starting: bool) -> None: ...

    def close(self) -> None: ...


def test_members_that_do_not_begin_are_not_waited_for_for_ever(monkeypatch) -> None:
    monkeypatch.setattr(team_module, "START_SECONDS", 0.01)
    monkeypatch.setattr(team_module, "_LOOK_SECONDS", 0.01)
    with pytest.raises(ServiceUnavailableError, match=r"not all of the 2 .* query\.memory"):
        Team([Nobody()], 1, lambda to, letter: None).join()


def test_waiting_ends_when_the_team_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(team_module, "_LOOK_SECONDS", 0.01)
    team = Team([Nobody()], 1, lambda to, letter: None)
    threading.Timer(0.02, team.fail, [ServiceUnavailableError("stopped")]).start()
    with pytest.raises(ServiceUnavailableError, match="stopped"):
        team.join()


def test_a_worker_that_lost_its_share_says_so() -> None:
    member = Member(lambda assigned, peers: pytest.fail("not opened"), lambda to, letter: None)
    member.join(4)
    with pytest.raises(ServiceUnavailableError, match="began anew"):
        member.run(4, EpochRecord(0, {}, 0), ())
