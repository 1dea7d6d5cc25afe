"""Processes that connect without an address find the same service."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from types import SimpleNamespace

import pytest

from pkray.errors import ServiceUnavailableError
from pkray.service.ray import cluster
from pkray.service.ray.cluster import KnownCluster

FIRST = """
import sys, pkray
catalog = pkray.connect(sys.argv[1], runtime="ray", runtime_options={"owners": 1})
table = catalog.create_table("db.t", [("id", "BIGINT")], ["id"])
writer = table.open_writer("job")
writer.upsert([{"id": 7}])
print("written", flush=True)
sys.stdin.readline()
"""

SECOND = """
import sys, pkray
catalog = pkray.connect(sys.argv[1], runtime="ray")
print(catalog.load_table("db.t").lookup([{"id": 7}]).to_pylist())
"""


@pytest.fixture
def environment(tmp_path):
    """Of processes that know of no cluster but those they start."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as short:  # names of sockets are short
        known = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        yield {**known, "TMPDIR": str(tmp_path), "RAY_TMPDIR": short}


@pytest.mark.ray
@pytest.mark.slow
def test_a_second_process_sees_what_the_first_has_not_committed(tmp_path, environment):
    warehouse = str(tmp_path / "warehouse")
    first = subprocess.Popen(
        [sys.executable, "-c", FIRST, warehouse],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert first.stdout.readline() == "written\n"
        second = subprocess.run(
            [sys.executable, "-c", SECOND, warehouse],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert second.stdout == "[{'id': 7}]\n", second.stderr
    finally:
        _, said = first.communicate("\n", timeout=240)
    assert "started a Ray cluster at" in said
    assert "ray start --head" in said


@pytest.fixture
def server():
    """Somebody who listens, and where."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening, f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_cluster_is_known_while_it_answers_and_its_process_lives(tmp_path, server):
    listening, address = server
    known = KnownCluster(str(tmp_path / "known"))
    assert known.find() is None
    known.note(address)
    assert known.find() == (address, os.getpid())
    listening.close()
    assert known.find() is None


def test_the_cluster_of_a_process_that_is_gone_is_forgotten(tmp_path, server):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    path = tmp_path / "known"
    path.write_text(f'{{"address": "{server[1]}", "pid": {int(gone.stdout)}}}')
    assert KnownCluster(str(path)).find() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"address": 5, "pid": "x"}', "\0"])
def test_a_damaged_file_knows_nothing(tmp_path, text):
    path = tmp_path / "known"
    path.write_text(text)
    assert KnownCluster(str(path)).find() is None


def test_of_processes_that_race_one_starts_a_cluster(tmp_path, server, monkeypatch):
    joined = []
    context = SimpleNamespace(gcs_address=server[1])
    fake = SimpleNamespace(
        init=lambda address, **_: joined.append(address), get_runtime_context=lambda: context
    )
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(cluster, "ray", fake)
    monkeypatch.setattr(cluster, "lasting_cluster", lambda: None)
    known = KnownCluster(str(tmp_path / "known"))
    monkeypatch.setattr(KnownCluster, "of_user", lambda: known)
    threads = [threading.Thread(target=cluster.join, args=(None,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(joined) == [*[server[1]] * 3, "local"]


def test_a_cluster_that_lasts_is_joined_first(monkeypatch, server):
    joined = []
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(cluster.ray, "init", lambda address, **_: joined.append(address))
    monkeypatch.setattr(cluster, "lasting_cluster", lambda: server[1])
    cluster.join(None)
    assert joined == [None]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_token_that_is_refused_is_named(monkeypatch, server, at_once):
    from ray.exceptions import AuthenticationError

    def refuse(**_):
        if at_once:
            raise AuthenticationError("no token")
        try:
            raise RuntimeError("last connection error: ray.exceptions.AuthenticationError: wrong")
        except RuntimeError as error:
            raise ConnectionError("failed to connect") from error

    monkeypatch.setattr(cluster.ray, "init", refuse)
    with pytest.raises(ServiceUnavailableError, match=r"token.*RAY_AUTH_MODE.*auth_token"):
        cluster.join(server[1])
