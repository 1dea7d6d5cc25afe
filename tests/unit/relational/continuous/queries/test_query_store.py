"""What is stored of queries, and which incarnation it is of."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

import pkray
from pkray.errors import MissingFileError, PlanError, QueryFencedError
from pkray.relational.continuous.queries.log import Checkpoint
from pkray.relational.continuous.queries.query_store import (
    Definition,
    Failure,
    QueryStore,
    new_incarnation,
)
from pkray.relational.plan_files import roots_of
from pkray.storage.opening import open_store

DOCUMENT = {
    "pkrayVersion": "0.1.0", "planVersion": 1, "dialect": "spark", "nodes": [], "edges": []
}  # fmt: skip


def definition(name: str = "db.r") -> Definition:
    made = Definition(name, dict(DOCUMENT), (True,), (name,), 0, "spark")
    return made.as_incarnation(new_incarnation())


@pytest.fixture
def store(tmp_path) -> QueryStore:
    return QueryStore(open_store(tmp_path))


def test_what_is_stored_is_read_again(store):
    made = definition()
    assert store.create(made)
    assert store.read("db.r") == made
    assert not store.create(definition())
    assert store.read("db.r") == made


def test_a_version_that_knows_no_incarnations_refuses_the_plan_by_name(store, tmp_path):
    store.create(definition())
    stored = json.loads((tmp_path / ".queries" / "db.r" / "query.json").read_text())
    with pkray.connect(tmp_path) as catalog, pytest.raises(PlanError, match="newer"):
        roots_of(catalog.session, stored["document"])


def test_a_query_of_a_version_before_gets_one_incarnation_whoever_asks(store):
    old = Definition("db.r", dict(DOCUMENT), (True,), ("db.r",), 0, "spark")
    store.create(old)
    adopted = [store.adopt(old) for _ in range(2)]
    assert adopted[0] == adopted[1]
    assert adopted[0].incarnation
    assert adopted[0].commits.user == "query-db.r"
    assert adopted[0].prefix == ""


def test_two_beginnings_have_nothing_in_common(store):
    one, two = definition(), definition()
    assert one.incarnation != two.incarnation
    assert one.commits.user != two.commits.user
    assert one.reader != two.reader
    assert one.prefix != two.prefix


def test_another_incarnation_is_told_that_it_is_over(store):
    older, newer = definition(), definition()
    store.create(newer)
    store.want(newer, running=True)
    store.check_current(newer)
    assert store.is_wanted(newer)
    for asked in (store.check_current, store.is_wanted):
        with pytest.raises(QueryFencedError, match=newer.incarnation):
            asked(older)


def test_a_wish_that_is_gone_is_told(store):
    made = definition()
    store.create(made)
    with pytest.raises(MissingFileError, match=r"wanted-[0-9a-f]+\.json"):
        store.is_wanted(made)


def test_what_another_incarnation_said_is_not_read(store):
    older, newer = definition(), definition()
    store.create(newer)
    store.note_failure(older, Failure("boom", "ValueError", 3, 0, run="a"))
    store.note_status(older, {"state": "running"})
    assert store.failure(newer) is None
    assert store.status(newer) is None


def test_a_failure_is_taken_back_by_the_run_that_noted_it_alone(store):
    made = definition()
    store.create(made)
    store.note_failure(made, Failure("boom", "ValueError", 3, 0, run="newer"))
    store.delete_failure_of(made, "older")
    assert store.failure(made) is not None
    store.delete_failure_of(made, "newer")
    assert store.failure(made) is None


def test_dropping_an_incarnation_leaves_the_next_one_alone(store):
    older, newer = definition(), definition()
    store.create(newer)
    store.drop(older)
    assert store.find("db.r") == newer
    store.drop(newer)
    assert store.find("db.r") is None


def test_a_log_does_not_see_what_another_incarnation_wrote(store):
    older = definition()
    newer = structs.replace(older.as_incarnation(new_incarnation()))
    store.create(older)
    log = store.log(older)
    log.take_over()
    assert log.has_begun
    assert not store.log(newer).has_begun
    with pytest.raises(QueryFencedError):
        store.log(newer).take_over()  # query.json names the older one


def test_a_late_drop_leaves_what_the_next_incarnation_is_to_do(store, monkeypatch):
    old, new = definition(), definition()
    store.create(old)
    store.want(old, running=True)
    folder = store.folder("db.r")
    found = [each.path for each in folder.list(hidden=True)]
    store.drop(old)
    store.create(new)
    store.want(new, running=True)
    folder.delete([path for path in found if path != "query.json"])  # as who slept in the middle
    assert store.is_wanted(new)


def test_a_run_that_slept_before_it_took_over_does_not_take_over_from_newer_ones(store):
    made = definition()
    store.create(made)
    first, second = store.log(made), store.log(made)
    first.look()
    second.look()
    second.take_over()
    with pytest.raises(QueryFencedError, match="took over"):
        first.take_over()
    with pytest.raises(QueryFencedError, match="took over"):
        first.check_not_passed()
    second.check_not_passed()
    assert not second.is_overtaken


def test_a_run_whose_number_was_cleaned_away_does_not_take_over(store, monkeypatch):
    made = definition()
    store.create(made)
    first, second = store.log(made), store.log(made)
    first.look()
    create = first._create

    def late(path, record):
        if not second.has_begun:
            second.take_over()
            for epoch in range(4):
                second.write_checkpoint(Checkpoint(epoch, {}, {}, "", {}))
        return create(path, record)

    monkeypatch.setattr(first, "_create", late)
    with pytest.raises(QueryFencedError, match="took over"):
        first.take_over()
