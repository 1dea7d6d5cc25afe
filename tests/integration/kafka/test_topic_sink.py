"""Tables into topics: each change once for readers of what is committed, whatever ends a writer."""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

import pkray
import pkray.kafka
from pkray.changelog.change_history import ChangeHistory
from pkray.errors import (
    ChangeSinkError,
    CommitFencedError,
    InputError,
    OptionError,
    SnapshotNotFoundError,
    TableReplacedError,
    UnsupportedError,
)
from pkray.kafka import topic_transactions
from tests.effort import examples
from tests.integration.cdc.histories import (
    DROPPED,
    Change,
    Evolving,
    alter,
    evolving_histories,
    folded,
)
from tests.integration.cdc.test_histories import create, key
from tests.integration.cdc.test_upserts import run
from tests.integration.kafka.broker import MockBroker
from tests.integration.kafka.model_cluster import Killed, ModelCluster, ModelProducer
from tests.integration.kafka.process_broker import ProcessBroker
from tests.integration.kafka.test_topics import COLUMNS
from tests.waiting import wait_until

PRODUCERS = ("none", "input", "lookup", "full-compaction")


@pytest.fixture(scope="module")
def broker() -> MockBroker:
    return MockBroker()


@pytest.fixture
def cluster() -> Iterator[ModelCluster]:
    cluster = ModelCluster()
    cluster.make("t")
    with cluster.installed():
        yield cluster


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    return catalog.create_table("db.t", COLUMNS, ["id"], options={"changelog-producer": "lookup"})


def put(table: pkray.Table, *ids: int, n: int = 0) -> None:
    table.upsert([{"id": each, "n": n} for each in ids])


def sink(table: pkray.Table, **more: Any) -> Any:
    more = {
        "format": "debezium-json",
        "servers": ModelCluster.servers,
        "poll_interval": 0.05,
        **more,
    }
    return pkray.kafka.write(table, "t", **more)


def events(cluster: ModelCluster, topic: str = "t") -> list[dict[str, Any]]:
    """The committed events, in the order of the table's changes."""
    found = [json.loads(value) for part in cluster.committed(topic) for _, value in part]
    return sorted(found, key=lambda event: tuple(event["source"].values())[-2:])


def shown(cluster: ModelCluster) -> list[tuple[str, int | None, int | None]]:
    """Of each event its op, and ``n`` before and after."""
    return [
        (event["op"], *(event[image] and event[image]["n"] for image in ("before", "after")))
        for event in events(cluster)
    ]


def following(table: pkray.Table, **more: Any) -> tuple[Any, threading.Thread, list[Exception]]:
    """A sink that runs, and what ends it."""
    found, ended = sink(table, **more), []

    def follow() -> None:
        try:
            found.run()
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    return found, thread, ended


def test_a_life(cluster, table):
    """The table as it is, then its changes, in two runs and a third without any."""
    put(table, 1, 2)
    assert sink(table).run(once=True) == 2
    put(table, 1, n=5)
    table.delete([{"id": 2}])
    put(table, 3)
    assert sink(table).run(once=True) == 3
    assert sink(table).run(once=True) == 0
    assert shown(cluster) == [
        ("r", None, 0), ("r", None, 0), ("u", 0, 5), ("d", 0, None), ("c", None, 0),
    ]  # fmt: skip
    assert sink(table).next_snapshot() == table.latest_snapshot().id + 1


def test_a_topic_is_followed_until_it_is_told_to_stop(cluster, table):
    put(table, 1)
    found, thread, ended = following(table)
    wait_until(lambda: len(shown(cluster)) == 1)
    put(table, 2)
    wait_until(lambda: len(shown(cluster)) == 2)
    found.stop()
    thread.join(120)
    assert not thread.is_alive()
    assert not ended
    put(table, 3)
    assert sink(table).run(once=True) == 1


def test_an_empty_table_is_followed_from_its_first_row(cluster, table):
    assert sink(table).run(once=True) == 0
    put(table, 1)
    sink(table).run(once=True)
    assert shown(cluster) == [("c", None, 0)]


def test_rows_by_key_have_no_value_where_they_are_gone(cluster, table):
    put(table, 1, 2)
    put(table, 1, n=1)
    table.delete([{"id": 2}])
    sink(table, format="upsert-json", from_snapshot=1).run(once=True)
    by_key: dict[bytes, list[bytes | None]] = {}
    for part in cluster.committed("t"):
        for name, value in part:
            by_key.setdefault(name, []).append(value)
    assert by_key == {
        b'{"id":1}': [b'{"id":1,"n":0}', b'{"id":1,"n":1}'],
        b'{"id":2}': [b'{"id":2,"n":0}', None],
    }


def test_what_is_killed_at_any_call_goes_on_without_loss_or_repetition(cluster, table):
    put(table, 1, 2)
    put(table, 1, n=1)
    table.delete([{"id": 2}])
    begin = {"mode": "from-snapshot-full", "from_snapshot": 2}
    sink(table, **begin).run(once=True)
    whole, calls = cluster.committed("t"), len(cluster.calls)
    for number in range(1, calls + 1):
        for is_after in (False, True):
            cluster.make("t")
            cluster.kill_at(number, is_after)
            with pytest.raises(Killed):
                sink(table, **begin).run(once=True)
            cluster.kill_at(0)
            sink(table, **begin).run(once=True)
            assert cluster.committed("t") == whole, (cluster.calls, is_after)


def write(table: pkray.Table, changes: list[Change]) -> None:
    """Write changes in one commit, with the rows before."""
    rows = []
    for change in changes:
        before, after = change.before, change.after
        is_move = before is not None and after is not None and key(before) != key(after)
        kinds = ("-D", "+I") if is_move or None in (before, after) else ("-U", "+U")
        pairs = zip(kinds, (before, after), strict=True)
        rows += [{**row, "_row_kind": kind} for kind, row in pairs if row is not None]
    schema = table.arrow_schema.append(pa.field("_row_kind", pa.string()))
    with table.open_writer() as writer:
        writer.write(pa.Table.from_pylist(rows, schema), "_row_kind")
        writer.commit()


def becomes_the_table(
    cluster: ModelCluster | ProcessBroker, broker: MockBroker, data: st.DataObject
) -> None:
    """Write a history's changes to a topic, killed now and then, and the topic to a table."""
    history = data.draw(evolving_histories())
    producer = data.draw(st.sampled_from(PRODUCERS))
    normalize = data.draw(st.booleans())
    topic = f"copy-{time.monotonic_ns()}"
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        table = create(catalog, **{"changelog-producer": producer})
        cluster.make("t")
        with cluster.installed():
            for part in (history.before, history.after):
                if part is history.after:
                    alter(table, history.evolution)
                left = part.changes
                while left:
                    size = data.draw(st.integers(1, len(left)))
                    write(table, left[:size])
                    left = left[size:]
                    if data.draw(st.booleans()):
                        table.compact()
                    _run_killed(cluster, table, normalize, data)
            table.compact(full=True)
            cluster.kill_at(0)
            sink(table, servers=cluster.servers, normalize=normalize).run(once=True)
        broker.make(topic)
        for number, part in enumerate(cluster.committed("t")):
            broker.send_to(topic, number, *(value for _, value in part if value is not None))
        copy = catalog.create_table("db.copy", table.arrow_schema, table.primary_keys)
        pkray.kafka.read(
            copy, topic, servers=broker.servers, format="debezium-json", new_columns="add",
            decimal_handling_mode="string", missing="null",
        ).run(once=True)  # fmt: skip
        assert shared_rows(copy, history) == shared_rows(table, history)


def shared_rows(table: pkray.Table, history: Evolving) -> list[dict[str, Any]]:
    """Give a table's rows, without a column that was dropped."""
    rows = folded(table.to_arrow().to_pylist(), history.evolution)
    return [{**row, DROPPED: None} if history.evolution == "dropped" else row for row in rows]


def _run_killed(
    cluster: ModelCluster | ProcessBroker, table: pkray.Table, normalize: bool, data: st.DataObject
) -> None:
    cluster.kill_at(data.draw(st.integers(0, 12)), data.draw(st.booleans()))
    with suppress(Killed):
        sink(table, servers=cluster.servers, normalize=normalize).run(once=True)


@settings(max_examples=examples(4))
@given(data=st.data())
def test_histories_through_a_topic_become_the_table(broker, data):
    becomes_the_table(ModelCluster(), broker, data)


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(4))
@settings(max_examples=examples(50))
@given(data=st.data())
def test_many_histories_through_a_topic_become_the_table(broker, turn, data):
    becomes_the_table(ModelCluster(), broker, data)


def test_librdkafka_s_broker_takes_what_is_written(broker, catalog, table):
    put(table, *range(20))
    broker.make("wire")
    found = pkray.kafka.write(table, "wire", servers=broker.servers, format="debezium-json")
    assert found.run(once=True) == 20
    copy = catalog.create_table("db.copy", COLUMNS, ["id"])
    read = pkray.kafka.read(copy, "wire", servers=broker.servers, format="debezium-json")
    assert read.run(once=True) == 20
    assert copy.to_arrow().sort_by("id").equals(table.to_arrow().sort_by("id"))


def test_keys_are_where_java_s_clients_put_them(broker, table):
    put(table, *range(9))
    broker.make("places")
    pkray.kafka.write(table, "places", servers=broker.servers, format="upsert-json").run(once=True)
    reader = Consumer({"bootstrap.servers": broker.servers, "group.id": "test"})
    reader.assign([TopicPartition("places", number, 0) for number in range(4)])
    places: dict[int, int] = {}
    wait_until(lambda: places.update(_places(reader)) or len(places) == 9)
    reader.close()
    assert places == {0: 0, 1: 0, 2: 0, 3: 3, 4: 0, 5: 1, 6: 1, 7: 1, 8: 2}


def _places(reader: Consumer) -> dict[int, int]:
    return {
        json.loads(message.key())["id"]: message.partition()
        for message in reader.consume(100, 0.5)
        if message.error() is None
    }


def test_of_two_of_a_name_the_newer_takes_over(cluster, table):
    put(table, 1)
    _, thread, ended = following(table)
    wait_until(lambda: len(shown(cluster)) == 1)
    sink(table).run(once=True)
    put(table, 2)
    thread.join(120)
    [error] = ended
    assert isinstance(error, CommitFencedError)
    assert "another writer of 'pkray.t.db.t.pkray' has taken over topic 't'" in str(error)
    sink(table).run(once=True)
    assert len(shown(cluster)) == 2


def abortable(code: int, said: str) -> KafkaError:
    return KafkaError(code, said, txn_requires_abort=True)


@pytest.mark.parametrize("call", ["produce", "send_offsets", "commit"])
def test_a_transaction_that_can_only_be_given_up_is_given_up_at_once(cluster, table, call):
    """So that readers of committed messages wait for nothing, and the next run writes it."""
    put(table, 1, 2)
    sink(table).run(once=True)
    put(table, 1, 2, n=1)
    cluster.failures[call] = abortable(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
    with pytest.raises(ChangeSinkError, match=r"too large\. What is not committed"):
        sink(table).run(once=True)
    assert not cluster.open
    assert len(shown(cluster)) == 2
    assert sink(table).run(once=True) == 2
    assert len(shown(cluster)) == 4


def test_a_commit_whose_answer_is_lost_is_found_by_the_next_run(cluster, table, monkeypatch):
    put(table, 1)
    sink(table).run(once=True)
    put(table, 2)
    commit = ModelProducer.commit_transaction

    def unanswered(producer: ModelProducer, timeout: float) -> None:
        commit(producer, timeout)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))

    with monkeypatch.context() as patched:
        patched.setattr(ModelProducer, "commit_transaction", unanswered)
        with pytest.raises(ChangeSinkError, match="no answer"):
            sink(table).run(once=True)
    assert sink(table).run(once=True) == 0
    assert len(shown(cluster)) == 2


def test_a_snapshot_that_took_longer_than_brokers_allow_is_not_said_to_be_fenced(
    cluster, table, monkeypatch
):
    """Brokers end its transaction and answer as if another writer had taken over."""
    put(table, 1)
    sink(table).run(once=True)
    put(table, 2)
    plain = ModelProducer.send_offsets_to_transaction

    def late(producer: ModelProducer, *arguments: Any) -> None:
        cluster.give_up()
        time.sleep(0.01)  # the second one's time is over
        plain(producer, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(ModelProducer, "send_offsets_to_transaction", late)
        with pytest.raises(CommitFencedError):  # before its time: it was another writer
            sink(table).run(once=True)
        with pytest.raises(ChangeSinkError, match=r"open for longer than transaction\.timeout\.ms"):
            sink(table, config={"transaction.timeout.ms": "1"}).run(once=True)
    assert sink(table).run(once=True) == 1


def test_a_transaction_s_time_that_brokers_do_not_allow_is_told(cluster, table):
    code = KafkaError.INVALID_TRANSACTION_TIMEOUT
    cluster.failures["init"] = KafkaError(code, "too long", fatal=True)
    with pytest.raises(ChangeSinkError, match=r"allow less than transaction\.timeout\.ms = 900000"):
        sink(table).run(once=True)


def test_two_names_write_all_of_it_each(cluster, table):
    put(table, 1)
    sink(table).run(once=True)
    with pytest.raises(ChangeSinkError, match=r"topic 't' has records, and group .*say mode"):
        sink(table, name="other").run(once=True)
    assert sink(table, name="other", mode="latest-full").run(once=True) == 1


def test_changes_that_expired_are_missed_by_their_snapshot(cluster, table):
    put(table, 1)
    sink(table).run(once=True)
    gone = table.latest_snapshot().id + 1
    for number in range(3):
        put(table, 1, n=number)
    table.expire_snapshots(retain_min=1, retain_max=1)
    with pytest.raises(SnapshotNotFoundError, match=f"changes of snapshot {gone} .* have expired"):
        sink(table).run(once=True)
    assert len(shown(cluster)) == 1


def test_a_consumer_keeps_what_is_not_written(cluster, table):
    put(table, 1)
    sink(table, consumer_id="topic").run(once=True)
    for number in range(1, 4):
        put(table, 1, n=number)
    table.expire_snapshots(retain_min=1, retain_max=1)
    sink(table, consumer_id="topic").run(once=True)
    assert [after for _, _, after in shown(cluster)] == [0, 1, 2, 3]
    table.expire_snapshots(retain_min=1, retain_max=1)
    assert table.snapshots().num_rows == 1


def test_compactions_alone_move_the_place(cluster, table):
    put(table, 1)
    sink(table).run(once=True)
    table.compact(full=True)
    sink(table).run(once=True)
    assert sink(table).next_snapshot() == table.latest_snapshot().id + 1


def test_a_table_made_anew_under_the_name_is_refused(cluster, catalog, table):
    put(table, 1)
    sink(table).run(once=True)
    catalog.drop_table("db.t")
    again = catalog.create_table("db.t", COLUMNS, ["id"])
    put(again, 2)
    with pytest.raises(TableReplacedError, match="topic 't' was written from another table"):
        sink(again).run(once=True)
    with pytest.raises(TableReplacedError):
        sink(table).run(once=True)
    assert len(shown(cluster)) == 1


def test_a_table_that_is_replaced_ends_who_follows_it(cluster, catalog, table):
    put(table, 1)
    _, thread, ended = following(table)
    wait_until(lambda: len(shown(cluster)) == 1)
    catalog.drop_table("db.t")
    thread.join(120)
    assert [isinstance(error, pkray.TableError) for error in ended] == [True]


def test_a_table_that_is_rolled_back_is_refused(cluster, table):
    put(table, 1)
    before = table.latest_snapshot().id
    put(table, 1, n=1)
    sink(table).run(once=True)
    table.rollback_to(snapshot_id=before)
    with pytest.raises(SnapshotNotFoundError, match=r"table db\.t was rolled back"):
        sink(table).run(once=True)
    for number in range(3):
        put(table, 1, n=number)
    with pytest.raises(SnapshotNotFoundError, match=r"table db\.t was rolled back"):
        sink(table).run(once=True)


def test_a_rollback_just_before_a_snapshot_is_found_is_seen(cluster, table, monkeypatch):
    """So that the changes of the other history do not follow those of the one before."""
    put(table, 1)
    before = table.latest_snapshot().id
    put(table, 1, n=1)
    sink(table).run(once=True)
    put(table, 1, n=2)
    find = ChangeHistory.find

    def found(self, number):
        monkeypatch.setattr(ChangeHistory, "find", find)
        table.rollback_to(snapshot_id=before)
        for other in range(8, 12):
            put(table, 1, n=other)
        return find(self, number)

    monkeypatch.setattr(ChangeHistory, "find", found)
    with pytest.raises(SnapshotNotFoundError, match=r"table db\.t was rolled back"):
        sink(table).run(once=True)
    assert shown(cluster) == [("r", None, 1)]


def test_content_that_was_not_written_to_its_end_is_written_anew(cluster, table):
    put(table, 1)
    cluster.kill_at(cluster_calls_to_content())
    with pytest.raises(Killed):
        sink(table).run(once=True)
    cluster.kill_at(0)
    put(table, 2)
    table.expire_snapshots(retain_min=1, retain_max=1)
    sink(table).run(once=True)
    assert shown(cluster) == [("r", None, 0), ("r", None, 0)]


def cluster_calls_to_content() -> int:
    """Which call is the first `produce`: opening, the place, and its transaction come before."""
    return len(["init", "committed", "begin", "send_offsets", "commit", "begin", "produce"])


def test_an_offset_that_is_no_place_is_named(cluster, table):
    cluster.offsets["pkray.t.db.t.pkray", "t", 0] = 5, "of something else"
    with pytest.raises(ChangeSinkError, match=r"is no place of a table: 'of something else'"):
        sink(table).run(once=True)


def test_columns_without_a_producer_are_complete_when_normalised(cluster, catalog):
    plain = catalog.create_table("db.t", COLUMNS, ["id"])
    put(plain, 1)
    put(plain, 1, n=1)
    sink(plain, normalize=True, from_snapshot=1).run(once=True)
    assert shown(cluster) == [("c", None, 0), ("u", 0, 1)]


def test_the_command_line_writes_a_topic(broker, capsys, table, tmp_path):
    put(table, 1, 2)
    put(table, 3)
    broker.make("typed")
    warehouse = table.location.url.removesuffix("/db.db/t").removeprefix("file://")
    settings = tmp_path / "kafka.properties"
    settings.write_text("linger.ms = 1\n")
    words = ("kafka", "write", "db.t", "typed", "--servers", broker.servers, "--format",
             "debezium-json", "--once", "--json", "-w", warehouse, "--from", "1",
             "--config", settings, "--consumer", "c", "--name", "typed")  # fmt: skip
    assert json.loads(run(capsys, *words)) == {"rows": 3}
    assert table.consumers.list().column("consumer_id").to_pylist() == ["c"]


def test_a_topic_that_is_not_there_is_named(cluster, table):
    with pytest.raises(ChangeSinkError, match=r"topic 'nothing': .*Make it first"):
        pkray.kafka.write(table, "nothing", servers="", format="debezium-json").run()


def test_brokers_that_do_not_answer_are_named(table, monkeypatch):
    monkeypatch.setattr(topic_transactions, "_ANSWER", 2.0)
    with pytest.raises(ChangeSinkError, match=r"brokers at 127\.0\.0\.1:1 do not take"):
        sink(table, servers="127.0.0.1:1").run(once=True)


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"format": "xml"}, OptionError, "'xml'"),
        ({"poll_interval": 0}, InputError, "poll_interval = 0"),
        ({"mode": "from-snapshot"}, OptionError, "needs a snapshot id"),
    ],
)
def test_arguments_that_do_not_fit_are_named(table, more, error, said):
    with pytest.raises(error, match=said):
        sink(table, **more)


def test_keys_that_move_between_partitions_are_refused(catalog):
    columns = [("id", "BIGINT"), ("dt", "STRING")]
    moving = catalog.create_table("db.m", columns, ["id"], ["dt"], options={"bucket": "-1"})
    with pytest.raises(UnsupportedError, match=r"keys of table db\.m move from partition"):
        sink(moving)


def test_secrets_of_the_configuration_are_not_shown(table):
    found = sink(table, config={"sasl.password": "not-to-be-seen"})
    assert "not-to-be-seen" not in repr(found) + repr(vars(found))
