"""Topics into tables: their events once, whatever ends a reader."""

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pkray
import pkray.cdc
import pkray.kafka
from pkray.errors import (
    ChangeRecordError,
    ChangeSourceError,
    CommitConflictError,
    CommitFencedError,
    InputError,
    OptionError,
)
from pkray.kafka import topic_source
from pkray.service.client.writer import TableWriter
from tests.effort import examples
from tests.integration.cdc.test_histories import (
    JSON,
    check_content,
    columns_of,
    create,
    drawn,
    load_both,
)
from tests.integration.cdc.test_upserts import run
from tests.integration.kafka import read_topic
from tests.integration.kafka.broker import MockBroker
from tests.unit.cdc.test_debezium_avro import PEOPLE, message

COLUMNS = [("id", "BIGINT"), ("n", "BIGINT")]


@pytest.fixture(scope="module")
def broker() -> MockBroker:
    return MockBroker()


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    return catalog.create_table("db.t", COLUMNS, ["id"])


def event(key: int, n: int | None) -> tuple[str, str | None]:
    """The row of a key, or that it is gone."""
    row = {"id": key, "n": n}
    text = {"op": "c", "before": None, "after": row}
    if n is None:
        text = {"op": "d", "before": row, "after": None}
    return str(key), json.dumps(text)


def reader(table: pkray.Table, broker: MockBroker, topic: str, **more: Any) -> Any:
    more = {"format": "debezium-json", "servers": broker.servers, **more}
    return pkray.kafka.read(table, topic, **more)


def rows(table: pkray.Table) -> dict[int, int]:
    return {row["id"]: row["n"] for row in table.to_arrow().to_pylist()}


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_life(broker, catalog, table):
    """Read, gone on with, left and come back to; then made anew under the same name."""
    broker.send("life", [event(key, key) for key in range(20)])
    assert reader(table, broker, "life").run(once=True) == 20
    assert rows(table) == {key: key for key in range(20)}
    assert sum(reader(table, broker, "life").offsets().values()) == 20
    before = table.latest_snapshot()
    assert reader(table, broker, "life").run(once=True) == 0
    assert table.latest_snapshot().id == before.id

    follower = reader(table, broker, "life", commit_interval=0.5)
    thread = threading.Thread(target=follower.run, daemon=True)
    thread.start()
    broker.send("life", [event(3, None), ("4", None), event(5, 50)])
    wait_until(lambda: rows(table).get(5) == 50)
    follower.stop()
    thread.join(120)
    assert not thread.is_alive()
    assert sum(follower.offsets().values()) == 23
    assert 3 not in rows(table)

    catalog.drop_table("db.t")
    again = catalog.create_table("db.t", COLUMNS, ["id"])
    reader(again, broker, "life").run(once=True)
    assert rows(again) == {key: 50 if key == 5 else key for key in range(20) if key != 3}


def test_of_two_at_once_the_newer_takes_over(broker, table):
    broker.send("two", [event(key, 0) for key in range(5)])
    first = reader(table, broker, "two", commit_interval=0.2)
    ended: list[BaseException] = []

    def run() -> None:
        with pytest.raises(CommitFencedError) as failed:
            first.run()
        ended.append(failed.value)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    wait_until(lambda: len(rows(table)) == 5)
    second = reader(table, broker, "two", commit_interval=0.2)
    other = threading.Thread(target=second.run, daemon=True)
    other.start()
    number = 0

    def is_fenced() -> bool:
        nonlocal number
        number += 1
        broker.send("two", [event(number % 5, number)])
        return bool(ended)

    wait_until(is_fenced)
    second.stop()
    other.join(120)
    thread.join(120)
    reader(table, broker, "two").run(once=True)
    newest = {n % 5: n for n in range(1, number + 1)}
    assert rows(table) == {key: newest.get(key, 0) for key in range(5)}


@settings(max_examples=examples(2))
@given(data=st.data())
def test_histories_read_with_failing_commits_become_the_source_s_content(broker, data):
    name = data.draw(st.sampled_from(JSON))
    history, parts, modes = drawn(data, name)
    fails = data.draw(st.lists(st.sampled_from(["before", "after"]), max_size=3))
    topic = f"h-{time.monotonic_ns()}"
    broker.make(topic)
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        table = create(catalog, columns_of(name))

        def load(records: list[str | None], **more: str) -> None:
            # All in one partition: histories have updates that change keys.
            broker.send_to(topic, 1, *filter(None, records))
            for fail in (*fails, None):
                _read_failing(reader(table, broker, topic, format=name, **modes, **more), fail)

        load_both(table, history, *(partial(load, records) for records in parts))
        check_content(table, history)


def _read_failing(found: Any, fail: str | None) -> None:
    plain = TableWriter.commit

    def commit(self: TableWriter, *arguments: Any, **named: Any) -> Any:
        if fail == "after":
            plain(self, *arguments, **named)
        raise CommitConflictError("as the test says")

    with pytest.MonkeyPatch.context() as patched:
        if fail is None:
            found.run(once=True)
            return
        patched.setattr(TableWriter, "commit", commit)
        with suppress(CommitConflictError):
            found.run(once=True)


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_killed_at_a_commit_goes_on_there(broker, table, when):
    topic = MockBroker()  # of its own: the topic has the table's name
    topic.send("t", [event(key, 1) for key in range(30)])
    warehouse = table.location.url.removesuffix("/db.db/t").removeprefix("file://")
    words = [sys.executable, read_topic.__file__, warehouse, topic.servers, when, "1"]
    ended = subprocess.run(words, timeout=180, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    topic.send("t", [event(key, None) for key in range(10)])
    assert reader(table, topic, "t").run(once=True) == (40 if when == "before" else 10)
    assert rows(table) == dict.fromkeys(range(10, 30), 1)


def test_a_bad_record_is_named_by_its_offset(broker, table):
    broker.send_to("bad", 2, event(1, 1)[1], event(2, 2)[1], "{")
    with pytest.raises(ChangeRecordError, match="topic 'bad' partition 2 offset 2: ") as refused:
        reader(table, broker, "bad").run(once=True)
    assert refused.value.record == 2
    assert table.latest_snapshot() is None


def test_bad_records_go_to_the_table_of_errors_once(broker, catalog, table):
    broker.send_to("some", 0, event(1, 1)[1], "{", event(2, 2)[1])
    errors = pkray.cdc.open_errors(catalog, "db.t$errors")
    for _ in range(2):
        found = reader(table, broker, "some", errors=errors)
        found.run(once=True)
    assert rows(table) == {1: 1, 2: 2}
    [row] = errors.to_arrow().to_pylist()
    assert (row["source"], row["record"]) == ("topic 'some' partition 0", 1)


def test_commits_without_new_bad_records_leave_the_table_of_errors_alone(broker, catalog, table):
    errors = pkray.cdc.open_errors(catalog, "db.t$errors")
    broker.send_to("few", 0, "{")
    follower = reader(table, broker, "few", errors=errors, commit_interval=0.2)
    thread = threading.Thread(target=follower.run, daemon=True)
    thread.start()
    for n in range(1, 4):
        broker.send_to("few", 0, event(n, n)[1])
        wait_until(lambda n=n: n in rows(table))
    follower.stop()
    thread.join(120)
    assert errors.snapshots().num_rows == 1


def test_the_command_line_reads_a_topic(broker, capsys, table, tmp_path):
    broker.send_to("typed", 0, event(1, 1)[1], "{", event(2, 2)[1])
    settings = tmp_path / "kafka.properties"
    settings.write_text("# of the consumer\nfetch.wait.max.ms = 100\n\n")
    warehouse = table.location.url.removesuffix("/db.db/t").removeprefix("file://")
    words = ("kafka", "read", "db.t", "typed", "--servers", broker.servers, "--format",
             "debezium-json", "--once", "--json", "-w", warehouse,
             "--errors", "$errors")  # fmt: skip
    assert json.loads(run(capsys, *words, "--config", settings)) == {"rows": 2, "bad": 1}
    assert json.loads(run(capsys, *words)) == {"rows": 0, "bad": 0}
    settings.write_text("nothing\n")
    assert "setting 1 is no NAME=VALUE: 'nothing'" in run(
        capsys, *words, "--config", settings, code=2
    )


def test_columns_that_are_added_in_a_topic_are_added_to_the_table(broker, catalog, table):
    wide = {"op": "c", "before": None, "after": {"id": 2, "n": 2, "born": 1912}}
    broker.send("wide", [event(1, 1), event(3, 3), ("2", json.dumps(wide))])
    reader(table, broker, "wide", new_columns="add").run(once=True)
    found = catalog.load_table("db.t").to_arrow().sort_by("id").to_pylist()
    assert [row["born"] for row in found] == [None, 1912, None]


def test_messages_in_avro(broker, catalog):
    people = catalog.create_table("db.people", [("id", "INT"), ("name", "STRING")], ["id"])
    ada = {"id": 1, "name": "Ada"}
    broker.send("avro", [("1", message("c", None, ada)), ("1", None)])
    given = {7: json.dumps(PEOPLE)}
    reader(people, broker, "avro", format="debezium-avro", avro_schema=given).run(once=True)
    assert people.to_arrow().to_pylist() == [ada]


def test_latest_leaves_out_what_was_there(broker, table):
    broker.send("late", [event(1, 1)])
    reader(table, broker, "late", begin="latest").run(once=True)
    assert rows(table) == {}


def test_offsets_stay_where_others_commit_and_older_snapshots_expire(broker, catalog, table):
    for topic in ("stays", "stays-too"):
        broker.send(topic, [event(key, 1) for key in range(10)])
        reader(table, broker, topic, begin="earliest").run(once=True)
    for n in range(3):
        table.upsert([{"id": 100, "n": n}])
    table.expire_snapshots(retain_min=1, retain_max=1)
    assert table.snapshots().num_rows == 1
    broker.send("stays", [event(3, None)])
    assert reader(table, broker, "stays").run(once=True) == 1
    assert reader(table, broker, "stays-too", begin="earliest").run(once=True) == 0

    catalog.drop_table("db.t")
    again = catalog.create_table("db.t", COLUMNS, ["id"])
    assert reader(again, broker, "stays").offsets() == {}


def test_rows_that_are_rolled_back_are_read_again(broker, table):
    broker.send("back", [event(1, 1)])
    reader(table, broker, "back").run(once=True)
    before = table.latest_snapshot().id
    broker.send("back", [event(2, 2)])
    reader(table, broker, "back").run(once=True)
    table.rollback_to(snapshot_id=before)
    assert reader(table, broker, "back").run(once=True) == 1
    assert rows(table) == {1: 1, 2: 2}


def test_a_restored_table_is_read_into_from_its_offsets(broker, catalog, table, tmp_path):
    broker.send("kept", [event(key, 1) for key in range(10)])
    reader(table, broker, "kept").run(once=True)
    table.upsert([{"id": 100, "n": 1}])
    table.expire_snapshots(retain_min=1, retain_max=1)
    catalog.backups(f"file://{tmp_path}/backups").create("first")
    broker.send("kept", [event(5, 5)])
    with pkray.connect(f"file://{tmp_path}/other") as other:
        other.backups(f"file://{tmp_path}/backups").restore("first")
        restored = other.load_table("db.t")
        assert reader(restored, broker, "kept").run(once=True) == 1
        assert rows(restored)[5] == 5


def test_a_topic_of_another_cluster_is_told_apart_though_it_goes_as_far(table):
    old, new = MockBroker(), MockBroker()
    for broker in (old, new):
        broker.send("t", [event(key, 1) for key in range(30)])
    reader(table, old, "t").run(once=True)
    with pytest.raises(ChangeSourceError, match=r"topic 't' has cluster id .* was read from"):
        reader(table, new, "t").run(once=True)


@pytest.fixture
def topic_ids(monkeypatch) -> dict[str, str | None]:
    """Ids that brokers tell, which those of the tests do not."""
    ids: dict[str, str | None] = {}
    monkeypatch.setattr(
        topic_source._Topic, "_topic_id", lambda self, _: ids.get(self._source.topic)
    )
    return ids


def test_a_topic_that_was_made_anew_is_told_apart_by_its_id(broker, catalog, table, topic_ids):
    broker.send("anew", [event(key, 1) for key in range(8)])
    reader(table, broker, "anew").run(once=True)  # by brokers that tell no id, yet
    topic_ids["anew"] = "first"
    broker.send("anew", [event(1, 2)])
    reader(table, broker, "anew").run(once=True)
    topic_ids["anew"] = "second"
    broker.send("anew", [event(1, 3)])
    with pytest.raises(ChangeSourceError, match=r"topic id second, .* of topic id first"):
        reader(table, broker, "anew").run(once=True)
    assert rows(table)[1] == 2
    catalog.drop_table("db.t")
    again = catalog.create_table("db.t", COLUMNS, ["id"])
    assert reader(again, broker, "anew").run(once=True) == 10


def test_of_a_topic_that_is_made_anew_while_it_is_read_nothing_is_committed(
    broker, table, topic_ids, monkeypatch
):
    topic_ids["mid"] = "first"
    broker.send("mid", [event(1, 1)])
    reader(table, broker, "mid").run(once=True)
    plain = topic_source._Topic._decoded

    def decoded(*arguments: Any) -> Any:
        topic_ids["mid"] = "second"
        return plain(*arguments)

    monkeypatch.setattr(topic_source._Topic, "_decoded", decoded)
    broker.send("mid", [event(1, 2)])
    with pytest.raises(ChangeSourceError, match="the topic was made anew"):
        reader(table, broker, "mid").run(once=True)
    assert rows(table) == {1: 1}


def test_offsets_without_an_identity_are_gone_on_from(broker, table):
    broker.send("plain", [event(key, 1) for key in range(8)])
    reader(table, broker, "plain").run(once=True)
    (offsets,) = [table.latest_snapshot().properties[pkray.kafka.PLACE]]
    with table.open_writer("pkray.kafka.plain") as writer:  # as it was before
        writer.commit(properties={pkray.kafka.PLACE: offsets, "pkray.place.pkray.kafka.plain":
                                  json.dumps({pkray.kafka.PLACE: offsets})})  # fmt: skip
    broker.send("plain", [event(1, 2)])
    assert reader(table, broker, "plain").run(once=True) == 1


def test_a_topic_that_is_shorter_than_what_was_read_is_told_apart(broker, table):
    broker.send_to("short", 0, event(1, 1)[1])
    reader(table, broker, "short").run(once=True)
    place = {pkray.kafka.PLACE: json.dumps({str(number): 7 for number in range(4)})}
    with table.open_writer("pkray.kafka.short") as writer:
        writer.commit(properties={"pkray.place.pkray.kafka.short": json.dumps(place)})
    with pytest.raises(ChangeSourceError, match=r"offsets 0 to 1, and 7 is next: .*made anew"):
        reader(table, broker, "short").run(once=True)
    place = {pkray.kafka.PLACE: json.dumps({"9": 0})}
    with table.open_writer("pkray.kafka.short") as writer:
        writer.commit(properties={"pkray.place.pkray.kafka.short": json.dumps(place)})
    with pytest.raises(ChangeSourceError, match="has no partition 9 any more"):
        reader(table, broker, "short").run(once=True)


def test_partitions_that_are_added_are_read_from_their_beginning(broker, table, monkeypatch):
    plain, is_wide = topic_source._Topic._partitions, threading.Event()

    def partitions(self: Any) -> list[int]:
        return plain(self) if is_wide.is_set() else plain(self)[:2]

    monkeypatch.setattr(topic_source._Topic, "_partitions", partitions)
    broker.send_to("more", 0, event(0, 0)[1])
    broker.send_to("more", 3, event(3, 3)[1])
    follower = reader(table, broker, "more", commit_interval=0.2)
    thread = threading.Thread(target=follower.run, daemon=True)
    thread.start()
    wait_until(lambda: rows(table) == {0: 0})
    is_wide.set()
    wait_until(lambda: rows(table) == {0: 0, 3: 3})
    broker.send_to("more", 2, event(2, 2)[1])
    broker.send_to("more", 3, event(3, 4)[1])
    wait_until(lambda: rows(table) == {0: 0, 2: 2, 3: 4})
    follower.stop()
    thread.join(120)
    assert set(follower.offsets()) == {0, 1, 2, 3}


def test_rows_without_offsets_need_a_word(broker, table):
    table.upsert([{"id": 1, "n": 1}])
    with pytest.raises(ChangeSourceError, match="say begin"):
        reader(table, broker, "late").run(once=True)


def test_a_topic_or_a_broker_that_is_not_there_is_named(broker, table, monkeypatch):
    with pytest.raises(ChangeSourceError, match=r"topic 'nothing': .*[Uu]nknown topic"):
        reader(table, broker, "nothing").run(once=True)
    monkeypatch.setattr(topic_source, "_ANSWER", 3.0)
    with pytest.raises(ChangeSourceError, match=r"no broker .*127\.0\.0\.1:1"):
        reader(table, broker, "t", servers="127.0.0.1:1").run(once=True)


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"begin": "soon"}, OptionError, "begin = 'soon'"),
        ({"format": "xml"}, OptionError, "'xml' is no format"),
        ({"commit_interval": 0}, InputError, "commit_interval = 0"),
    ],
)
def test_arguments_that_do_not_fit_are_named(broker, table, more, error, said):
    with pytest.raises(error, match=said):
        reader(table, broker, "t", **more)


def test_secrets_of_the_configuration_are_not_shown(broker, table):
    found = reader(table, broker, "t", config={"sasl.password": "not-to-be-seen"})
    assert "not-to-be-seen" not in repr(found) + repr(vars(found))
