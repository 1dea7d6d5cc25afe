"""The states of a session's commit, and what each transition does in each of them."""

import itertools

import pytest

from pkray.errors import ServiceError
from pkray.service.owner.prepared_commit import CommitState, PreparedCommit
from pkray.service.protocol import PrepareRequest
from tests.commit_samples import data_file
from tests.commit_samples import message as commit_message

REQUEST = PrepareRequest(4, {}, attempt_id="first")
NOW, DEAD = 1_000_000, 1_061_000
IDLE, PREPARED, IN_FLIGHT, IN_DOUBT, COMMITTED, UNDONE = CommitState


def message(name):
    return commit_message(new=[data_file(name)])


PATHS = {
    IDLE: (),
    PREPARED: ("prepare",),
    IN_FLIGHT: ("prepare", "hand_over"),
    IN_DOUBT: ("prepare", "hand_over", "release"),
    COMMITTED: ("prepare", "hand_over", "commit"),
    UNDONE: ("prepare", "undo"),
}
STEPS = {
    "prepare": lambda commit: commit.prepare(REQUEST, [message("a")]),
    "hand_over": lambda commit: commit.hand_over(NOW),
    "release": PreparedCommit.release,
    "commit": lambda commit: commit.commit(5),
    "undo": PreparedCommit.undo,
}
NEXT = {
    ("prepare", IDLE): PREPARED,
    ("prepare", UNDONE): PREPARED,
    ("hand_over", PREPARED): IN_FLIGHT,
    ("hand_over", IN_FLIGHT): IN_FLIGHT,
    ("hand_over", IN_DOUBT): IN_FLIGHT,
    ("hand_over", COMMITTED): IN_FLIGHT,
    ("release", IN_FLIGHT): IN_DOUBT,
    ("commit", IN_FLIGHT): COMMITTED,
    ("commit", IN_DOUBT): COMMITTED,
    ("undo", PREPARED): UNDONE,
    ("undo", IN_FLIGHT): UNDONE,
    ("undo", IN_DOUBT): UNDONE,
    ("undo", COMMITTED): UNDONE,
}
RAISING = ("prepare", "hand_over")


def after(*steps):
    commit = PreparedCommit()
    for step in steps:
        STEPS[step](commit)
    return commit


@pytest.mark.parametrize("state", CommitState)
def test_the_steps_lead_to_each_state(state):
    assert after(*PATHS[state]).state is state


@pytest.mark.parametrize(("step", "state"), list(itertools.product(STEPS, CommitState)))
def test_a_transition_leads_where_it_is_to_lead_and_else_raises_or_changes_nothing(step, state):
    commit = after(*PATHS[state])
    if step in RAISING and (step, state) not in NEXT:
        with pytest.raises(ServiceError, match=f"a commit that is {state.value} cannot be"):
            STEPS[step](commit)
        assert commit.state is state
        return
    STEPS[step](commit)
    assert commit.state is NEXT.get((step, state), state)


def test_messages_are_there_from_their_preparation_until_they_are_undone():
    commit = after("prepare")
    assert commit.is_prepared
    assert commit.messages == [message("a")]
    assert commit.attempt_id == "first"
    commit.undo()
    assert not commit.is_prepared
    assert commit.messages == ()
    assert commit.attempt_id is None


def test_a_request_that_is_repeated_is_answered_by_the_same_messages():
    commit = after("prepare", "hand_over")
    assert commit.answers(PrepareRequest(4, {}, attempt_id="first"))
    assert not commit.answers(PrepareRequest(5, {}, attempt_id="first"))
    assert not commit.answers(PrepareRequest(4, {}, attempt_id="second"))


def test_messages_in_flight_hold_their_base_until_their_coordinator_is_taken_for_dead():
    commit = after("prepare", "hand_over")
    assert commit.base_in_flight(NOW) == 4
    assert not commit.is_in_doubt(NOW)
    assert commit.base_in_flight(DEAD) is None
    assert commit.is_in_doubt(DEAD)


def test_messages_that_nobody_was_given_are_neither_in_flight_nor_in_doubt():
    commit = after("prepare")
    assert commit.base_in_flight(NOW) is None
    assert not commit.is_in_doubt(NOW)


def test_an_answer_that_was_lost_is_given_again_with_a_new_term():
    commit = after("prepare", "hand_over", "release")
    commit.hand_over(DEAD)
    assert commit.base_in_flight(DEAD) == 4


def test_a_commit_is_in_a_snapshot_that_has_its_files_and_in_later_ones():
    commit = after("prepare", "hand_over", "release")
    commit.search([(5, {"b"}), (6, {"a", "c"})], 9)
    assert commit.state is COMMITTED
    assert [commit.is_in(number) for number in (5, 6, 7)] == [False, True, True]
    assert not commit.is_in_doubt(NOW)


def test_a_commit_whose_files_no_snapshot_has_stays_in_doubt():
    commit = after("prepare", "hand_over", "release")
    assert commit.searched_until == 4
    commit.search([(5, {"b"})], 9)
    assert commit.searched_until == 9
    assert commit.state is IN_DOUBT
    assert commit.is_in_doubt(NOW)


def test_files_of_messages_that_were_undone_are_still_looked_for():
    commit = after("prepare", "hand_over", "undo")
    assert commit.is_in_doubt(NOW)
    commit.search([(5, {"a"})], 5)
    assert commit.is_in(5)
    assert commit.state is UNDONE


def test_a_snapshot_of_an_earlier_attempt_leaves_the_messages_since_prepared():
    commit = after("prepare", "hand_over", "undo")
    commit.prepare(PrepareRequest(6, {}, attempt_id="second"), [message("b")])
    commit.search([(5, {"a"})], 6)
    assert commit.state is PREPARED
    commit.hand_over(NOW)
    commit.release()
    assert commit.state is COMMITTED


def test_all_that_was_handed_over_is_searched_from_the_oldest_base():
    commit = after("prepare", "hand_over", "undo")
    commit.prepare(PrepareRequest(6, {}, attempt_id="second"), [message("b")])
    commit.hand_over(NOW)
    assert commit.searched_until == 4
