"""What the files of `deploy/` run makes a service, translated to processes of this machine."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.files import commands
from tests.deploy.runbook import blocks, prepare
from tests.ray.marked import MARK, kill_marked

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]  # each command is a process that joins Ray

MOST_SECONDS = 200
COMMANDS = commands()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Machine:
    """A folder in which lines of containers run as processes of one cluster.

    Args:
        environment: that all of them have.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._port = folder, free_port()
        (folder / "token").write_text("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEX=\n")
        self.environment = {
            **environment,
            "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
            "PKRAY_WAREHOUSE": str(folder / "warehouse"),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
        }

    def _line(self, place: str) -> str:
        line = COMMANDS[place].replace("--port=6379", f"--port={self._port}")
        line = line.replace("head:6379", f"127.0.0.1:{self._port}")
        return line.replace("--dashboard-host=0.0.0.0", "--include-dashboard=false")

    def begin(self, place: str) -> subprocess.Popen[bytes]:
        """Begin what stands somewhere; it writes into a file."""
        with (self._folder / place.replace(" ", "-")).open("wb") as file:
            return subprocess.Popen(
                ["bash", "-c", self._line(place)],
                env=self.environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    def run(self, place: str, **more: str) -> int:
        """Run what stands somewhere to its end; give how it ends."""
        command = ["bash", "-c", self._line(place)]
        return subprocess.run(
            command, env=self.environment | more, cwd=self._folder, timeout=MOST_SECONDS
        ).returncode

    def do(self, *lines: str) -> None:
        """Run commands of the runbook's."""
        written = {line for block in blocks("cluster") for line in block.lines}
        for line in lines:
            assert line in written, line
            done = subprocess.run(
                ["bash", "-c", line],
                env=self.environment,
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=MOST_SECONDS,
            )
            assert done.returncode == 0, (line, done.stderr[-2000:], self.said())

    def status(self) -> list[dict[str, Any]]:
        """Ask what runs."""
        command = [sys.executable, "-m", "pkray", "service", "status", "--json"]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=MOST_SECONDS
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def said(self) -> str:
        """Give what all have written, for those who look why something fails."""
        files = (path for path in self._folder.iterdir() if path.is_file())
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in files)


def await_(reached: Callable[[], Any], machine: Machine) -> Any:
    deadline = time.monotonic() + MOST_SECONDS
    while not (found := reached()):
        assert time.monotonic() < deadline, machine.said()
        time.sleep(0.5)
    return found


def begun(machine: Machine) -> subprocess.Popen[bytes]:
    """Begin the head; wait until it is healthy."""
    head = machine.begin("compose head command")
    await_(lambda: machine.run("Dockerfile HEALTHCHECK") == 0, machine)
    return head


@pytest.mark.slow
def test_the_runbook_restarts_a_service_and_brings_its_queries_back(tmp_path, apart):
    machine = Machine(tmp_path, apart)
    prepare(tmp_path / "warehouse")
    head = begun(machine)
    machine.do(
        "pkray service restart --rolling",
        "pkray service stop",
        "pkray service start",
        "pkray query resume shop.totals --detach --ray auto",
    )
    found = {each["name"]: each["state"] for each in machine.status() if each["kind"] == "query"}
    assert found["shop.totals"] in ("starting", "running")
    machine.do("pkray service logs --query shop.totals", "pkray service stop")
    head.send_signal(signal.SIGTERM)
    assert head.wait(MOST_SECONDS) == 0, machine.said()


@pytest.mark.slow
def test_containers_and_pods_make_a_service_that_is_healthy_drained_and_left(tmp_path, apart):
    machine = Machine(tmp_path, apart)
    head = begun(machine)
    machine.begin("compose worker command")

    def workers() -> dict[str, str]:
        found = (each for each in machine.status() if each["kind"] == "worker")
        return {each["node"]: each["state"] for each in found if each["node"]}

    first = set(workers())
    both = await_(lambda: len(found := workers()) == 2 and found, machine)
    (joined,) = set(both) - first
    assert machine.run("chart ray-worker preStop", POD_IP=joined) == 0
    assert await_(lambda: workers().get(joined) == "drained", machine)
    head.send_signal(signal.SIGTERM)
    assert head.wait(MOST_SECONDS) == 0, machine.said()
    assert machine.run("Dockerfile HEALTHCHECK") == 0  # the service outlives who waits for it


@pytest.mark.slow
def test_who_stays_ends_with_the_cluster(tmp_path, apart):
    machine = Machine(tmp_path, apart)
    machine.environment["RAY_gcs_rpc_server_reconnect_timeout_s"] = "5"
    head = begun(machine)
    assert kill_marked(apart[MARK], but=head.pid) >= 3
    assert head.wait(MOST_SECONDS) != 0
