"""Processes that begin at once, as copies of one that has imported everything, and can be killed.

::

    Processes (the driver) ──▶ a process that imports, and then forks ──▶ Process, Process, …
                                                                          each serves one object
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pkray.errors import PkrayError

ANSWER_SECONDS = 60.0
"""A process that takes longer is stuck."""
_BYTES = 8
"""Of the number of a process."""
Answer = tuple[str, Any]
"""``given`` and what a method gave, ``refused`` and a `PkrayError`, ``raised`` and a trace."""


class StuckError(Exception):
    """A process has died by itself, or does not answer."""


class Refused(Exception):
    """A method of an object in another process raised a `PkrayError`.

    Attributes:
        kind: the name of its class.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Process:
    """A process that serves an object: its methods are called by their names.

    Attributes:
        pid: stays the process's own until it is killed here.
    """

    def __init__(self, pid: int, connection: Connection, kill: Callable[[int], None]) -> None:
        self.pid = pid
        self._connection = connection
        self._kill = kill

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method, and wait for what it gives.

        Raises:
            Refused: it raised a `PkrayError`.
            StuckError: it raised something else, takes too long, or the process is gone.
        """
        self.send(method, *arguments)
        return self.answer()

    def send(self, method: str, *arguments: Any) -> None:
        """Have a method called."""
        self._connection.send((method, arguments))

    def answer(self) -> Any:
        """Wait for what the method gives that was sent first; as of `call`."""
        try:
            if not self._connection.poll(ANSWER_SECONDS):
                raise StuckError(f"process {self.pid} does not answer in {ANSWER_SECONDS} s")
            how, value = self._connection.recv()
        except (EOFError, ConnectionError):
            raise StuckError(f"process {self.pid} has died by itself") from None
        if how == "refused":
            raise Refused(*value)
        if how == "raised":
            raise StuckError(value)
        return value

    def sleep(self) -> None:
        """Stop it where it is."""
        os.kill(self.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it, awake or asleep."""
        self._connection.close()
        self._kill(self.pid)


class Processes:
    """Begins processes; leaving it kills those that are left, and so does the end of the driver.

    Args:
        served: the class of what processes serve, as ``module:name``; its class method ``warm_up``
            does, in a process of its own, what others are to have imported.
    """

    def __init__(self, served: str) -> None:
        self._channel, theirs = socket.socketpair()
        number = theirs.fileno()
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, served, str(number)],
            pass_fds=[number],
            env=environment,
        )
        theirs.close()
        try:
            self._number()
        except BaseException:
            self.close()
            raise

    def begin(self, log: Path, *arguments: Any) -> Process:
        """Begin a process.

        Args:
            log: takes what it says.
            arguments: of the object that it serves.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._channel, [bytes(_BYTES)], [theirs.fileno()])
            pid = self._number()
        process = Process(pid, Connection(ours.detach()), self._kill)
        process.send(str(log), *arguments)
        return process

    def _kill(self, pid: int) -> None:
        self._channel.sendall(pid.to_bytes(_BYTES, "big"))
        self._number()

    def _number(self) -> int:
        data = self._channel.recv(_BYTES, socket.MSG_WAITALL)
        if len(data) < _BYTES:
            raise StuckError("the process that begins others has died")
        return int.from_bytes(data, "big")

    def close(self) -> None:
        """Kill all."""
        self._channel.close()
        self._process.wait()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _begin_others(served: str, channel: socket.socket) -> None:
    """Fork when asked to, kill and bury when asked to; when nobody is there to ask, kill all."""
    children: set[int] = set()
    try:
        _import_all(served)
        channel.sendall(bytes(_BYTES))
        while True:
            data, descriptors, *_ = socket.recv_fds(channel, _BYTES, 1)
            if not data:
                return
            if descriptors:
                pid = os.fork()
                if not pid:
                    channel.close()
                    _serve(served, Connection(descriptors[0]))
                os.close(descriptors[0])
                children.add(pid)
                channel.sendall(pid.to_bytes(_BYTES, "big"))
            else:
                pid = int.from_bytes(data, "big")
                _bury(pid)
                children.discard(pid)
                channel.sendall(data)
    finally:
        for pid in children:
            _bury(pid)


def _bury(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _import_all(served: str) -> None:
    """Import what a process imports that does the work, which itself would start threads."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        folder = tempfile.mkdtemp()
        try:
            _class(served).warm_up(folder)
            names = sorted(name for name in sys.modules if name.partition(".")[0] == "pkray")
            os.write(write, "\n".join(names).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as file:
        names = file.read().split()
    os.waitpid(pid, 0)
    _class(served)
    for name in names:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _class(served: str) -> Any:
    module, _, name = served.partition(":")
    return getattr(importlib.import_module(module), name)


def _serve(served: str, connection: Connection) -> None:
    """Call what the driver asks for, until it is gone."""
    try:
        log, arguments = connection.recv()
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        serving = _class(served)(*arguments)
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                method, arguments = connection.recv()
                connection.send(_answer(getattr(serving, method), arguments))
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def _answer(method: Callable[..., Any], arguments: Any) -> Answer:
    try:
        value = method(*arguments)
        pickle.dumps(value)
        return "given", value
    except PkrayError as error:
        return "refused", (type(error).__name__, str(error))
    except Exception:
        return "raised", traceback.format_exc()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[2])) as asked:
        _begin_others(sys.argv[1], asked)
