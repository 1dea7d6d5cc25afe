"""``pkray query …``: what continuous queries there are, from other processes."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

import pkray
from pkray.cli.commands.query import watch
from tests.integration.cli.conftest import Command
from tests.waiting import wait_until


@pytest.fixture
def warehouse(tmp_path) -> str:
    """A warehouse with a query default.r that has stopped."""
    root = str(tmp_path / "warehouse")
    with pkray.connect(root) as catalog:
        table = catalog.create_table("default.t", [("k", "INT"), ("v", "INT")], ["k"])
        snapshot = table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 1}])
        query = catalog.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY v").materialize("default.r")
        query.wait({"default.t": snapshot.id})
        query.stop()
    return root


@pytest.fixture
def call(warehouse, command) -> Command:
    return lambda *words: command("query", *words, "--warehouse", warehouse)


@pytest.fixture
def said(call) -> Callable[..., dict[str, object]]:
    return lambda *words: json.loads(call(*words, "--json")[1])


def test_queries_are_listed_shown_verified_and_dropped(said, call):
    assert said("list")["state"] == "stopped"
    assert said("status", "default.r")["sources"] == {"default.t": 1}
    assert said("verify", "default.r")["equal"] is True
    assert said("verify", "default.r", "--table", "default.r")["equal"] is True
    assert said("savepoint", "default.r", "one") == {"savepoint": "one", "query": "default.r"}
    assert said("savepoints", "default.r") == {"savepoint": "one"}
    deleted = {"deleted": "one", "query": "default.r"}
    assert said("delete-savepoint", "default.r", "one") == deleted
    assert said("drop", "default.r") == {"dropped": "default.r"}
    code, _, wrong = call("status", "default.r")
    assert code == 1
    assert "no query is called default.r" in wrong


def test_a_query_that_is_stopped_goes_on_with_other_workers(said, call, warehouse):
    assert said("list")["workers"] == 1
    assert said("rescale", "default.r", "2") == {"rescaled": "default.r", "workers": 2}
    with pkray.connect(warehouse) as catalog:
        table, query = catalog.load_table("default.t"), catalog.query("default.r").resume()
        with table.open_writer() as writer:
            writer.upsert([{"k": 3, "v": 1}])
            query.wait({"default.t": writer.commit().id})
        assert said("list")["workers"] == 2
        query.stop()
    code, _, wrong = call("rescale", "default.r", "0")
    assert code == 1
    assert "query.parallelism" in wrong


def test_another_plan_takes_over_is_accepted_or_rolled_back(said, call, warehouse, tmp_path):
    newer = "SELECT v, COUNT(*) AS n, MAX(k) AS most FROM t GROUP BY v"
    assert said("plan", "default.r")["nodes"][-1]["type"] == "sink_1"
    assert "Aggregate(" in call("plan", "default.r")[1]
    nodes = said("diff", "default.r", newer)["nodes"]
    assert [each["fate"] for each in nodes] == ["warmed up"] * 2 + ["dropped"] * 2
    code, drawn, _ = call("diff", "default.r", "SELECT k, v FROM t")
    assert code == 1
    assert "refused" in drawn
    code, _, wrong = call("upgrade", "default.r", "SELECT k, v FROM t")
    assert (code, "primaryKey" in wrong) == (1, True)
    with pkray.connect(warehouse) as catalog:
        sql = catalog.sql(newer)
        plan = str(tmp_path / "newer.json")
        catalog.query("default.r").upgrade(sql)
        catalog.query("default.r").plan().write(plan)
    assert said("rollback", "default.r") == {"rolled_back": "default.r"}
    upgraded = said("upgrade", "default.r", plan)
    assert (upgraded["upgraded"], upgraded["state"]) == ("default.r", "unaccepted")
    assert said("accept", "default.r") == {"accepted": "default.r"}
    assert said("verify", "default.r")["equal"] is True
    code, _, wrong = call("rollback", "default.r")
    assert (code, "has no upgrade to roll back" in wrong) == (1, True)


def test_a_query_is_left_running_on_ray_alone(call, said):
    code, _, wrong = call("resume", "default.r", "--detach")
    assert code == 1
    assert "name it with --ray" in wrong
    assert said("list")["state"] == "stopped"


def test_a_query_that_runs_in_one_process_is_stopped_from_another(warehouse, said):
    command = [sys.executable, "-m", "pkray", "query", "resume", "default.r"]
    running = subprocess.Popen(
        [*command, "--warehouse", warehouse], stdout=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: said("list")["state"] == "running")
        assert said("stop", "default.r") == {"stopped": "default.r"}
        assert running.wait(120) == 0
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGKILL)
            running.wait()
    assert said("list")["state"] == "stopped"


def test_the_status_says_what_each_operator_did_and_holds(said):
    nodes = said("status", "default.r")["nodes"]
    (found,) = (node for node in nodes if node["type"] == "Aggregate")
    (name,) = found["state_rows"]
    assert (found["rows_in"], found["rows_out"], found["state_rows"][name]) == (2, 1, 1)
    assert found["seconds"] > 0
    assert found["state_file_bytes"][name] > 0


def test_the_live_status_shows_what_each_operator_did(call):
    code, shown, _ = call("status", "default.r", "--live")
    assert code == 0
    assert "Aggregate" in shown
    assert "1 rows" in shown
    assert "default.t at 1 " in shown


def test_ctrl_c_stops_a_query_that_is_watched(monkeypatch):
    stopped: list[bool] = []

    class Running:
        name = "default.r"

        def status(self) -> dict[str, object]:
            return {"state": "running", "epoch": 0, "failure": None, "sources": {}, "nodes": []}

        def stop(self) -> None:
            stopped.append(True)

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    watch(Running())
    assert stopped == [True]
