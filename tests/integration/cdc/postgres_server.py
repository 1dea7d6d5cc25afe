"""A PostgreSQL of the test's own: its files are gone with it."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.programs import PROGRAMS

PASSWORD = "not-to-be-seen"
USER = "pk"
_SECONDS = 120


class PostgresServer:
    """Runs on a port of its own, for who knows the password."""

    def __init__(self) -> None:
        found = PROGRAMS["postgres"].path
        assert found is not None
        self._programs = Path(found).parent
        self._folder = Path(tempfile.mkdtemp(prefix="pkray-pg-"))
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            self._account = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self._folder, "nobody", "nogroup")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        data = self._folder / "data"
        subprocess.run(
            [self._programs / "initdb", "-D", data, "-A", "scram-sha-256", "-U", USER,
             "-E", "UTF8", "--locale=C", f"--pwfile={password}"],
            check=True, timeout=_SECONDS, capture_output=True, cwd=self._folder, **self._account,
        )  # fmt: skip
        self._log = (self._folder / "log").open("wb")
        self._start()

    def _start(self, *more: str) -> None:
        settings = ("wal_level=logical", "fsync=off", "listen_addresses=127.0.0.1", *more)
        words = [word for each in settings for word in ("-c", each)]
        self._process = subprocess.Popen(
            [self._programs / "postgres", "-D", self._folder / "data", "-p", str(self.port), "-k",
             self._folder, *words],
            stdout=self._log, stderr=self._log, cwd=self._folder, **self._account,
        )  # fmt: skip
        self._wait()

    def bench(self, *words: str) -> None:
        """Run pgbench, with statements of this client's own or PostgreSQL's."""
        subprocess.run(
            [self._programs / "pgbench", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-n",
             *words, "postgres"],
            check=True, timeout=_SECONDS, capture_output=True,
            env={**os.environ, "PGPASSWORD": PASSWORD},
        )  # fmt: skip

    def promote(self) -> None:
        """Have it recover what it has, and go on with another timeline."""
        self._stop()
        signal = self._folder / "data" / "recovery.signal"
        signal.touch()
        if self._account:
            shutil.chown(signal, "nobody", "nogroup")
        self._start("restore_command=false")
        end = time.monotonic() + _SECONDS
        while self.sql("SELECT pg_is_in_recovery()") != ["f"]:
            assert time.monotonic() < end
            time.sleep(0.1)

    def _wait(self) -> None:
        end = time.monotonic() + _SECONDS
        while True:
            try:
                self.sql("SELECT 1")
                return
            except subprocess.CalledProcessError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.1)

    @property
    def where(self) -> dict[str, Any]:
        """The arguments of `pkray.cdc.postgres`."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "database": "postgres",
            "user": USER,
            "password": PASSWORD,
        }

    def sql(self, text: str) -> list[str]:
        """Run statements in one transaction; give the lines of what they select."""
        ran = subprocess.run(
            [self._programs / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-qAt",
             "-v", "ON_ERROR_STOP=1", "-c", text, "postgres"],
            check=True, timeout=_SECONDS, capture_output=True, text=True,
            env={**os.environ, "PGPASSWORD": PASSWORD},
        )  # fmt: skip
        return ran.stdout.splitlines()

    def close(self) -> None:
        self._stop()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_SECONDS)
