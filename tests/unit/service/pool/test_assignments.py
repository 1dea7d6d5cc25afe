"""Which worker has which part, as leases run out, workers are lost and keepers start anew."""

import pytest

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import DEFAULT_LIMITS
from pkray.service.pool.assignments import LEASE_SECONDS, Assignments
from pkray.service.pool.parts import COORDINATOR, HostedTable, WorkerProcess
from pkray.storage.location import TableLocation

FIRST = 1000
LONGER = LEASE_SECONDS * 1.2


def hosted(name: str = "t", owners: int = 2) -> HostedTable:
    return HostedTable(
        TableLocation(f"/wh/db.db/{name}", f"db.{name}"), owners, 30_000, DEFAULT_LIMITS
    )


class Workers:
    """Processes that renew their leases, as far as they are not stopped."""

    def __init__(self, count):
        self.now = 0.0
        self.keeper = Assignments(count, lambda: self.now, FIRST)
        self.processes = {n: WorkerProcess(f"process {n}", "node") for n in range(count)}
        self.held = {n: {} for n in range(count)}
        self.stopped = set()
        self.beat()

    def beat(self, seconds=0.0):
        self.now += seconds
        for number, process in self.processes.items():
            if number not in self.stopped:
                self.renew(number, process)

    def renew(self, number, process):
        answer = self.keeper.renew(number, process, self.held[number])
        for part in answer.gone:
            del self.held[number][part]
        return answer

    def locate(self, index, table=None):
        """Find a part, which its worker opens."""
        table = table or hosted()
        given = self.keeper.locate(table, index)
        self.held[given.worker][table.part(index)] = given.number
        return given

    def restart(self, number, node="node"):
        self.processes[number] = WorkerProcess(f"next process {number}", node)
        self.held[number] = {}
        return self.renew(number, self.processes[number])


@pytest.fixture
def workers():
    return Workers(2)


def test_a_part_stays_where_it_is_under_its_number(workers):
    first = workers.locate(0)
    workers.beat(60)
    assert workers.locate(0) == first
    assert workers.held[first.worker] == {hosted().part(0): first.number}


def test_numbers_grow_and_parts_are_spread(workers):
    given = [
        workers.locate(index, hosted(name)) for name in "abcd" for index in (COORDINATOR, 0, 1)
    ]
    numbers = [each.number for each in given]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > FIRST
    assert [each.worker for each in given].count(0) == 6
    assert len({workers.locate(index, hosted("a")).worker for index in (0, 1)}) == 2


def test_a_part_of_a_worker_that_is_silent_is_given_away_when_its_lease_has_run_out(workers):
    before = workers.locate(0)
    workers.stopped.add(before.worker)
    workers.beat(LEASE_SECONDS)
    assert workers.locate(0) == before
    workers.beat(LEASE_SECONDS)
    after = workers.locate(0)
    assert after.worker != before.worker
    assert after.number > before.number


def test_a_worker_that_wakes_is_told_what_is_gone_and_keeps_the_rest(workers):
    before = workers.locate(0)
    other = workers.locate(COORDINATOR, hosted("u"))
    kept = workers.locate(0, hosted("v"))
    assert kept.worker == before.worker != other.worker
    workers.stopped.add(before.worker)
    workers.beat(LONGER)
    workers.locate(0)
    workers.stopped.clear()
    answer = workers.renew(before.worker, workers.processes[before.worker])
    assert answer.gone == {hosted().part(0): before.number}
    assert workers.held[before.worker] == {hosted("v").part(0): kept.number}
    assert workers.locate(0, hosted("v")) == kept


def test_what_a_killed_worker_had_is_given_away_once_it_is_begun_again(workers):
    before = workers.locate(0)
    workers.restart(before.worker)
    after = workers.locate(0)
    assert after.number > before.number
    assert not workers.keeper.renew(
        before.worker, WorkerProcess("process 9", "node"), {}
    ).is_replaced


def test_a_worker_of_a_lost_node_may_live_there_until_its_lease_has_run_out(workers):
    before = workers.locate(0)
    workers.restart(before.worker, node="another node")
    with pytest.raises(ServiceUnavailableError, match=r"owner 0 of table db\.t .* in 5\.5 s"):
        workers.locate(0)
    workers.beat(LONGER)
    assert workers.locate(0).number > before.number


def test_a_process_that_was_replaced_is_to_end(workers):
    before = workers.processes[0]
    workers.restart(0)
    assert workers.keeper.renew(0, before, {}).is_replaced
    assert workers.keeper.claim(0, before, hosted().part(0)) == (None, None)


def test_a_part_that_does_not_get_on_is_given_away_when_nobody_answers_for_it(workers):
    before = workers.locate(0)
    workers.keeper.move(hosted().part(0), before.number)
    with pytest.raises(ServiceUnavailableError, match="try again"):
        workers.locate(0)
    workers.beat(1)
    assert workers.held[before.worker] == {}
    workers.beat(LEASE_SECONDS)
    assert workers.locate(0).number > before.number


def test_a_part_is_moved_once_however_many_callers_complain(workers):
    before = workers.locate(0)
    workers.keeper.move(hosted().part(0), before.number)
    workers.beat(LONGER)
    after = workers.locate(0)
    workers.keeper.move(hosted().part(0), before.number)
    assert workers.locate(0) == after


def test_what_a_commit_began_with_is_confirmed_while_nothing_has_moved(workers):
    numbers = {hosted().part(index): workers.locate(index).number for index in (COORDINATOR, 0, 1)}
    assert not workers.keeper.confirm(numbers)
    workers.keeper.move(hosted().part(1), numbers[hosted().part(1)])
    assert set(workers.keeper.confirm(numbers)) == {hosted().part(1)}


def test_a_released_table_can_be_opened_at_once_when_its_parts_are_dropped(workers):
    before = workers.locate(0)
    assert workers.keeper.release(hosted().location.fingerprint) == {hosted().part(0): before}
    assert len(workers.keeper) == 0
    with pytest.raises(ServiceUnavailableError):
        workers.locate(0)
    workers.keeper.dropped(hosted().part(0), before.number)
    assert workers.locate(0).number > before.number


def test_a_new_keeper_gives_nothing_away_while_others_may_answer_for_it(workers):
    before = workers.locate(0)
    workers.stopped.add(1 - before.worker)
    workers.keeper = Assignments(2, lambda: workers.now, FIRST * 2)
    workers.beat(1)
    assert workers.held[before.worker] == {}
    with pytest.raises(ServiceUnavailableError, match=r"in 4\.5 s"):
        workers.locate(0)
    workers.beat(LONGER)
    assert workers.locate(0).number > before.number


def test_a_new_keeper_goes_on_at_once_when_all_workers_have_dropped_what_they_had(workers):
    before = workers.locate(0)
    workers.keeper = Assignments(2, lambda: workers.now, FIRST * 2)
    workers.beat()
    with pytest.raises(ServiceUnavailableError):
        workers.locate(0)
    workers.beat(1)
    assert workers.locate(0).number > before.number


def test_clients_that_count_on_other_owners_are_told(workers):
    workers.locate(0)
    assert workers.keeper.open(hosted(owners=4)).owners == 2
    with pytest.raises(ServiceUnavailableError, match="has 2 owners by now, not 4"):
        workers.locate(0, hosted(owners=4))


def test_an_empty_pool_ends_and_takes_nothing_more(workers):
    workers.locate(0)
    assert not workers.keeper.close()
    workers.keeper.release(hosted().location.fingerprint)
    assert workers.keeper.close()
    with pytest.raises(ServiceUnavailableError, match="ending"):
        workers.locate(0)


@pytest.fixture
def two_nodes():
    """Two workers, on a node each."""
    workers = Workers(2)
    for number in (0, 1):
        workers.processes[number] = WorkerProcess(f"at {number}", f"node {number}")
    workers.beat(LEASE_SECONDS * 2)
    return workers


def hand_over(workers) -> dict:
    """Hand over what is to be, as workers do."""
    misplaced = workers.keeper.misplaced(100)
    for part, given in misplaced.items():
        workers.keeper.move(part, given.number)
        workers.held[given.worker].pop(part, None)
        workers.keeper.dropped(part, given.number)
    return misplaced


def places(workers) -> set:
    return {part.worker for part in workers.keeper.overview().parts}


def test_what_a_drained_node_has_goes_to_others_under_larger_numbers(two_nodes):
    workers = two_nodes
    before = {index: workers.locate(index) for index in (COORDINATOR, 0, 1)}
    node = before[0].worker
    workers.keeper.drain({f"node {node}"})
    assert hand_over(workers)
    assert places(workers) == {1 - node}
    for index, given in before.items():
        assert workers.locate(index).number >= given.number
    assert workers.locate(0, hosted("other")).worker == 1 - node
    assert hand_over(workers) == {}


def test_a_node_that_is_drained_no_longer_gets_its_share(two_nodes):
    workers = two_nodes
    workers.keeper.drain({"node 0"})
    for name in "abcdef":
        workers.locate(0, hosted(name))
    workers.keeper.drain(set())
    hand_over(workers)
    loads = [each.parts for each in workers.keeper.overview().workers]
    assert loads == [2, 4] or loads == [3, 3]


def test_parts_stay_where_all_nodes_are_drained(two_nodes):
    workers = two_nodes
    before = workers.locate(0)
    workers.keeper.drain({"node 0", "node 1"})
    assert hand_over(workers) == {}
    assert workers.locate(0) == before


def test_a_process_is_retired_until_the_next_one_is_in_its_place(two_nodes):
    workers = two_nodes
    given = workers.locate(0)
    worker, token = given.worker, workers.processes[given.worker].token
    assert workers.keeper.retire(worker, token) == 1
    hand_over(workers)
    assert workers.keeper.retire(worker, token) == 0
    workers.restart(worker, f"node {worker}")
    seen = {each.number: each.is_emptied for each in workers.keeper.overview().workers}
    assert seen == {0: False, 1: False}


def test_a_part_that_was_handed_over_has_no_worker_while_none_lives(two_nodes):
    workers = two_nodes
    given = workers.locate(0)
    workers.keeper.move(hosted().part(0), given.number)
    workers.now += LEASE_SECONDS * 2
    workers.keeper.dropped(hosted().part(0), given.number)
    with pytest.raises(ServiceUnavailableError):
        workers.keeper.locate(hosted(), 0)


def test_the_parts_of_a_worker_that_is_dead_for_certain_are_given_away_at_once(workers):
    first = workers.locate(0)
    process = workers.processes[first.worker]
    workers.keeper.suspect(first.worker, process, is_dead=True)
    second = workers.locate(0)
    assert second.worker != first.worker
    assert second.number > first.number
    assert first.worker not in workers.keeper.watched()


def test_a_lease_that_a_dead_worker_asked_for_is_not_given(workers):
    first = workers.locate(0)
    process = workers.processes[first.worker]
    workers.keeper.suspect(first.worker, process, is_dead=True)
    assert workers.keeper.renew(first.worker, process, {}).is_replaced
    assert workers.locate(0).worker != first.worker


def test_the_parts_of_a_worker_that_only_seems_dead_stay_while_its_lease_lasts(workers):
    first = workers.locate(0)
    workers.keeper.suspect(first.worker, workers.processes[first.worker])
    assert workers.locate(0) == first


def test_a_worker_that_is_dead_for_certain_is_not_replaced_once_more_as_silent(workers):
    first = workers.locate(0)
    workers.keeper.suspect(first.worker, workers.processes[first.worker], is_dead=True)
    workers.stopped.add(first.worker)
    workers.beat(LONGER)
    assert workers.keeper.silent(0) == []
