"""What is stored of queries, and which incarnation it is of."""

import json

import pytest
from msgspec import structs

import pkray
from pkray.checksums import KEY
from pkray.errors import MissingFileError, PlanError, QueryFencedError
from pkray.relational.continuous.log.log import Checkpoint
from pkray.relational.continuous.queries.definitions import query_store
from pkray.relational.continuous.queries.definitions.definition import Definition, new_incarnation
from pkray.relational.plan_files import roots_of
from pkray.storage.opening import open_store
from tests.delegating_store import DelegatingStore

DOCUMENT = {
    "pkrayVersion": "0.1.0", "planVersion": 1, "dialect": "spark", "nodes": [], "edges": []
}  # fmt: skip


def definition(name: str = "db.r") -> Definition:
    made = Definition(name, dict(DOCUMENT), (True,), (name,), 0, "spark")
    return made.as_incarnation(new_incarnation())


@pytest.fixture
def store(tmp_path) -> query_store.QueryStore:
    return query_store.QueryStore(open_store(tmp_path))


def test_what_is_stored_is_read_again(store):
    made = store.create(definition())
    assert made.number == 0
    assert store.read("db.r") == made
    assert store.create(definition()) is None
    assert store.read("db.r") == made


def test_who_changes_what_was_changed_meanwhile_is_told(store):
    made = store.create(definition())
    changed = store.replace(structs.replace(made, options={"parallelism": 2}))
    with pytest.raises(QueryFencedError, match="changed by another process"):
        store.replace(structs.replace(made, options={"parallelism": 3}))
    assert store.read("db.r") == changed
    assert store.replace(structs.replace(made, options={"parallelism": 2})) == changed


def test_a_query_that_was_changed_is_still_of_its_incarnation(store):
    made = store.create(definition())
    check = store.check_of(made)
    store.replace(structs.replace(made, options={"parallelism": 2}))
    check()
    store.drop(store.read("db.r"))
    with pytest.raises(QueryFencedError, match="was dropped"):
        check()


def test_a_look_whether_a_query_is_of_its_incarnation_is_one_request(tmp_path):
    asked = []

    class Counting(DelegatingStore):
        def child(self, prefix):
            return Counting(super().child(prefix))

        def exists(self, path):
            asked.append(path)
            return super().exists(path)

        def read(self, path):
            asked.append(path)
            return super().read(path)

        def list(self, *args, **kwargs):
            asked.append(args)
            return super().list(*args, **kwargs)

    store = query_store.QueryStore(Counting(open_store(tmp_path)))
    check = store.check_of(store.create(definition()))
    asked.clear()
    check()
    assert asked == ["definitions/definition-1"]


def test_versions_that_did_not_number_definitions_refuse_the_plan_by_name(store, tmp_path):
    store.create(definition())
    stored = json.loads((tmp_path / ".queries" / "db.r" / "query.json").read_text())
    stored["document"]["planVersion"] -= 1  # those that know incarnations take it for their own
    with pkray.connect(tmp_path) as catalog, pytest.raises(PlanError, match="newer"):
        roots_of(catalog.session, stored["document"])


def test_versions_before_see_which_tables_a_query_uses_until_it_is_dropped(store, tmp_path):
    scan = {"id": 0, "type": "scan", "table": "db.t"}
    made = store.create(structs.replace(definition(), document={**DOCUMENT, "nodes": [scan]}))
    path = tmp_path / ".queries" / "db.r" / "query.json"
    stored = json.loads(path.read_text())
    assert stored["tables"] == ["db.r"]
    assert [node["table"] for node in stored["document"]["nodes"]] == ["db.t"]
    store.drop(made)
    stored = json.loads(path.read_text())
    assert (stored["tables"], stored["document"]["nodes"]) == ([], [])


def test_a_query_of_a_version_before_is_numbered_when_it_is_stored_again(store, tmp_path):
    old = structs.replace(definition(), apart=False)
    path = tmp_path / ".queries" / "db.r" / "query.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(query_store._stored(old))
    found = store.read("db.r")
    assert found == old
    assert store.create(definition()) is None
    store.check_current(found)
    assert store.replace(found).number == 0
    assert store.read("db.r") == structs.replace(old, number=0)
    assert path.read_bytes() == query_store._refused(old)


def test_a_drop_that_did_not_end_is_ended_by_the_next(store):
    made = store.create(definition())
    store.want(made, running=True)
    dropped = store.drop(made)
    assert store.find("db.r") is None
    assert store.find_dropped("db.r") == dropped == store.drop(made)
    store.clear(dropped)
    assert store.find_dropped("db.r") is None
    assert store.drop(made) is None
    assert list(store.folder(made).list(hidden=True)) == []


def test_the_numbers_of_a_dropped_query_are_not_used_again(store):
    made = store.create(definition())
    dropped = store.drop(made)
    store.clear(dropped)
    newer = store.create(definition())
    assert newer.number == 2
    with pytest.raises(QueryFencedError, match=newer.incarnation):
        store.replace(structs.replace(made, options={"parallelism": 2}))
    with pytest.raises(QueryFencedError, match=newer.incarnation):
        store.drop(made)
    assert store.read("db.r") == newer


def test_a_query_of_a_version_before_leaves_what_is_begun_in_its_place(store, tmp_path):
    old = structs.replace(definition(), apart=False)
    path = tmp_path / ".queries" / "db.r" / "query.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(query_store._stored(old))
    store.want(old, running=True)
    dropped = store.drop(store.read("db.r"))
    newer = store.create(definition())
    store.want(newer, running=True)
    store.clear(dropped)  # as who slept before it
    assert store.is_wanted(newer)
    assert store.read("db.r") == newer
    with pytest.raises(MissingFileError):
        store.folder(old).read(f"wanted-{old.incarnation}.json")


def test_a_query_of_a_version_before_gets_one_incarnation_whoever_asks(store):
    old = Definition("db.r", dict(DOCUMENT), (True,), ("db.r",), 0, "spark")
    adopted = [store.adopt(old) for _ in range(2)]
    assert adopted[0] == adopted[1]
    assert adopted[0].incarnation
    assert adopted[0].commits.user == "query-db.r"
    assert adopted[0].prefix == ""


def test_a_query_of_a_newer_version_is_read_without_what_only_that_knows(store):
    made = store.create(definition())
    stored = json.loads(query_store._stored(made)) | {"of_a_newer": 1}
    del stored[KEY], stored["sql"]  # and as an older version wrote it
    store._numbered("db.r").add(made.number + 1, json.dumps(stored).encode())
    assert store.read("db.r") == structs.replace(made, number=made.number + 1)


def test_two_beginnings_have_nothing_in_common(store):
    one, two = definition(), definition()
    assert one.incarnation != two.incarnation
    assert one.commits.user != two.commits.user
    assert one.reader != two.reader
    assert one.prefix != two.prefix


def test_another_incarnation_is_told_that_it_is_over(store):
    older, newer = definition(), store.create(definition())
    store.want(newer, running=True)
    store.check_current(newer)
    assert store.is_wanted(newer)
    for asked in (store.check_current, store.is_wanted):
        with pytest.raises(QueryFencedError, match=newer.incarnation):
            asked(older)


def test_a_wish_that_is_gone_is_told(store):
    made = store.create(definition())
    with pytest.raises(MissingFileError, match=r"wanted-[0-9a-f]+\.json"):
        store.is_wanted(made)


def test_what_another_incarnation_said_is_not_read(store):
    older, newer = definition(), definition()
    store.create(newer)
    store.note_failure(older, query_store.Failure("boom", "ValueError", 3, 0, run="a"))
    store.note_status(older, {"state": "running"})
    assert store.failure(newer) is None
    assert store.status(newer) is None


def test_a_failure_is_taken_back_by_the_run_that_noted_it_alone(store):
    made = store.create(definition())
    store.note_failure(made, query_store.Failure("boom", "ValueError", 3, 0, run="newer"))
    store.delete_failure_of(made, "older")
    assert store.failure(made) is not None
    store.delete_failure_of(made, "newer")
    assert store.failure(made) is None


def test_a_log_does_not_see_what_another_incarnation_wrote(store):
    older = store.create(definition())
    newer = older.as_incarnation(new_incarnation())
    log = store.log(older)
    log.take_over()
    assert log.has_begun
    assert not store.log(newer).has_begun
    with pytest.raises(QueryFencedError):
        store.log(structs.replace(newer, number=-1)).take_over()  # the older one is stored


def test_a_run_that_slept_before_it_took_over_does_not_take_over_from_newer_ones(store):
    made = store.create(definition())
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
    made = store.create(definition())
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
