"""Topics of a broker that keeps transactions, of another make than the client."""

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from hypothesis import given, settings
from hypothesis import strategies as st

import pkray
import pkray.kafka
from pkray.errors import ChangeSinkError, CommitFencedError, TableReplacedError
from pkray.kafka import topic_transactions
from pkray.kafka.topic_transactions import TopicTransactions
from tests.effort import examples
from tests.integration.kafka import write_topic
from tests.integration.kafka.broker import MockBroker
from tests.integration.kafka.model_cluster import Killed
from tests.integration.kafka.process_broker import QUIET, ProcessBroker
from tests.integration.kafka.test_topic_sink import becomes_the_table, put
from tests.integration.kafka.test_topics import COLUMNS
from tests.waiting import wait_until

pytestmark = [pytest.mark.noida, pytest.mark.slow]


@pytest.fixture
def broker() -> Iterator[ProcessBroker]:
    with ProcessBroker() as broker:
        broker.make("t")
        yield broker


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    return catalog.create_table("db.t", COLUMNS, ["id"], options={"changelog-producer": "lookup"})


def sink(table: pkray.Table, broker: ProcessBroker, **more: Any) -> Any:
    more = {"format": "debezium-json", "servers": broker.servers, "poll_interval": 0.05, **more}
    return pkray.kafka.write(table, "t", **more)


def shown(broker: ProcessBroker) -> Counter[tuple[str, int | None, int | None]]:
    """Of each committed event its op, and ``n`` before and after."""
    found = [json.loads(value) for part in broker.committed("t") for _, value in part]
    return Counter(
        (event["op"], *(event[image] and event[image]["n"] for image in ("before", "after")))
        for event in found
    )


def copied(catalog: pkray.Catalog, broker: ProcessBroker) -> dict[int, int]:
    """Read the topic into a table that goes on where it ended; give its rows."""
    name = "db.copy"
    has_it = name in catalog.list_tables()
    copy = catalog.load_table(name) if has_it else catalog.create_table(name, COLUMNS, ["id"])
    pkray.kafka.read(copy, "t", servers=broker.servers, format="debezium-json").run(once=True)
    return rows(copy)


def rows(table: pkray.Table) -> dict[int, int]:
    return {row["id"]: row["n"] for row in table.to_arrow().to_pylist()}


def test_a_life(broker, catalog, table):
    """Written, gone on with, read beside it, and both made anew under their names."""
    put(table, *range(500))
    assert sink(table, broker).run(once=True) == 500
    assert copied(catalog, broker) == dict.fromkeys(range(500), 0)
    put(table, *range(100), n=5)
    table.delete([{"id": each} for each in range(400, 500)])
    assert sink(table, broker).run(once=True) == 200
    assert sink(table, broker).run(once=True) == 0
    assert copied(catalog, broker) == rows(table)
    assert shown(broker) == {("r", None, 0): 500, ("u", 0, 5): 100, ("d", 0, None): 100}
    catalog.drop_table("db.t")
    again = catalog.create_table("db.t", COLUMNS, ["id"])
    put(again, 7, n=7)
    with pytest.raises(TableReplacedError):
        sink(again, broker).run(once=True)
    assert sink(again, broker, name="anew", mode="latest-full").run(once=True) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_that_is_killed_at_a_commit_goes_on_there(broker, table, when):
    put(table, *range(200))
    sink(table, broker).run(once=True)
    put(table, *range(200), n=1)
    warehouse = table.location.url.removesuffix("/db.db/t").removeprefix("file://")
    words = [sys.executable, write_topic.__file__, warehouse, broker.servers, when, "1"]
    ended = subprocess.run(words, timeout=180, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert sink(table, broker).run(once=True) == (200 if when == "before" else 0)
    assert shown(broker) == {("r", None, 0): 200, ("u", 0, 1): 200}


def test_what_dies_at_any_call_goes_on_without_loss_or_repetition(catalog):
    table = catalog.create_table("db.t", COLUMNS, ["id"], options={"changelog-producer": "input"})
    put(table, 1, 2)
    put(table, 1, n=1)
    put(table, 3)
    whole: Counter[Any] = Counter({("r", None, 0): 2, ("c", None, 1): 1, ("c", None, 0): 1})
    begin = {"mode": "from-snapshot-full", "from_snapshot": 1}
    number, is_over = 0, False
    while not is_over:
        number += 1
        for is_after in (False, True):
            with ProcessBroker() as broker, broker.installed():
                broker.make("t")
                broker.kill_at(number, is_after)
                try:
                    sink(table, broker, **begin).run(once=True)
                    is_over = True
                except Killed:
                    broker.kill_at(0)
                    sink(table, broker, **begin).run(once=True)
                assert shown(broker) == whole, (number, is_after)


def test_a_writer_that_was_stopped_is_fenced_and_what_it_sent_is_not_read(broker, table):
    put(table, 1)
    sink(table, broker).run(once=True)
    put(table, 2)
    with broker.installed():
        broker.kill_at(4)  # init, begin, one message, and before the place
        with pytest.raises(Killed):
            sink(table, broker).run(once=True)
    wait_until(lambda: sum(map(len, broker.committed("t", "read_uncommitted"))) == 2)
    assert sink(table, broker).run(once=True) == 1
    [late] = broker.zombies
    with pytest.raises(KafkaException, match="fenced"):
        Producer.commit_transaction(late, 30)
    assert shown(broker) == {("r", None, 0): 1, ("c", None, 0): 1}


def test_of_two_of_a_name_the_newer_takes_over(broker, table):
    put(table, 1)
    ended: list[BaseException] = []

    def follow() -> None:
        try:
            sink(table, broker).run()
        except CommitFencedError as error:
            ended.append(error)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    wait_until(lambda: shown(broker).total() == 1)
    sink(table, broker).run(once=True)
    put(table, 2)
    thread.join(120)
    assert len(ended) == 1
    sink(table, broker).run(once=True)
    assert shown(broker).total() == 2


def test_a_reader_ends_before_a_transaction_that_is_open(broker, catalog):
    def event(key: int, n: int) -> str:
        return json.dumps({"op": "c", "before": None, "after": {"id": key, "n": n}})

    config = {"bootstrap.servers": broker.servers, "transactional.id": "other", **QUIET}
    writer = Producer(config)
    writer.init_transactions(30)
    ends = (writer.commit_transaction, writer.commit_transaction, writer.abort_transaction)
    for number, end in enumerate(ends):
        writer.begin_transaction()
        writer.produce("t", event(number, number), b"k")
        writer.flush(30)
        assert copied(catalog, broker) == {key: key for key in range(number)}
        end(30)
    assert copied(catalog, broker) == {0: 0, 1: 1}


def test_brokers_that_stop_answering_end_a_writer_and_nothing_is_lost(broker, table, monkeypatch):
    monkeypatch.setattr(topic_transactions, "_ANSWER", 3.0)
    config = {"message.timeout.ms": "2000"}
    put(table, 1)
    sink(table, broker, config=config).run(once=True)
    put(table, 2)
    send = TopicTransactions.send

    def stopped(self: TopicTransactions, messages: Any) -> None:
        broker.stop()
        send(self, messages)

    with monkeypatch.context() as patched:
        patched.setattr(TopicTransactions, "send", stopped)
        with pytest.raises(ChangeSinkError, match="What is not committed is written again"):
            sink(table, broker, config=config).run(once=True)
    broker.go_on()
    assert sink(table, broker).run(once=True) == 1
    assert shown(broker).total() == 2


@settings(max_examples=examples(20))
@given(data=st.data())
def test_histories_through_a_topic_become_the_table(data):
    with ProcessBroker() as broker:
        becomes_the_table(broker, MockBroker(), data)
