"""The Ray cluster that a process joins.

Processes of one user on this machine share one where they name none.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.exceptions import AuthenticationError

from pkray.errors import OptionError, ServiceUnavailableError, StorageError, UnsupportedError
from pkray.extras import is_installed
from pkray.java import use_java
from pkray.service.ray.actors import NAMESPACE
from pkray.storage.owned_directory import default_local_directory
from pkray.storage.private_files import private_directory, private_file, try_lock

_log = logging.getLogger(__name__)

LASTING = "lasting"
"""Stands for the cluster of this machine, which is started where there is none, to outlive whoever
started it."""
_NEW = "local"
_START_SECONDS = 120.0
"""In which a cluster has started on a busy machine."""
_MOST_SAID = 2000
"""Characters of what `ray start` says last: the reason is among them."""
_HOW_TO_LAST = "for one that lasts, run `ray start --head` before"


def join(address: str | None) -> None:
    """Connect this process to a cluster, or start one.

    Args:
        address: as `RayRuntime` takes it.

    Raises:
        OptionError: an address that is none.
        ServiceUnavailableError: no cluster answers there, or it wants another token.
    """
    lasts = address == LASTING
    address = None if lasts else address
    named = address or os.environ.get("RAY_ADDRESS")
    if named:
        _connect(address, named)
        return
    if _joined_lasting():
        return
    _provide_java()
    known = KnownCluster.of_user()
    with known.turn():
        found = known.find()
        if found is None and lasts:
            if not _joined_lasting():  # another process may have started it meanwhile
                _start_lasting()
            return
        if found is None:
            _connect(_NEW, _NEW)
            started = ray.get_runtime_context().gcs_address
            known.note(started)
            _log.warning(
                "started a Ray cluster at %s, which ends with this process; other processes of "
                "this machine that connect with runtime='ray' share it; %s",
                started,
                _HOW_TO_LAST,
            )
            return
    joined, pid = found
    join_known(joined)
    _log.info(
        "joined the Ray cluster at %s, which ends with process %d that started it; %s",
        joined,
        pid,
        _HOW_TO_LAST,
    )


def _joined_lasting() -> bool:
    """Connect to the cluster that `ray start` has started on this machine, if there is one."""
    lasting = lasting_cluster()
    if lasting is not None:
        _connect(None, lasting)  # Ray finds it, too, and takes the user's token along
    return lasting is not None


def _start_lasting() -> None:
    """Start a cluster on this machine that outlives this process, and connect to it.

    Raises:
        ServiceUnavailableError: it does not start.
    """
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port=0"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    with tempfile.TemporaryFile() as said:  # a pipe would stay open for as long as the cluster runs
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=_START_SECONDS,
                start_new_session=True,  # Ctrl-C in this terminal is not for it
                check=False,
            ).returncode
        except (OSError, subprocess.SubprocessError) as error:
            raise _not_started(str(error)) from error
        if ended:
            said.seek(0)
            raise _not_started(said.read().decode(errors="replace")[-_MOST_SAID:].strip())
    if not _joined_lasting():
        raise _not_started("it does not answer")
    _log.warning(
        "started a Ray cluster on this machine at %s: `ray stop` ends it",
        ray.get_runtime_context().gcs_address,
    )


def _not_started(reason: str) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"a Ray cluster cannot be started on this machine ({reason}): run `ray start --head`, or "
        "name another cluster's address"
    )


def join_known(address: str) -> None:
    """Connect to a cluster that processes of this user have told of, with the user's token.

    Raises:
        ServiceUnavailableError: it does not answer, or wants another token.
    """
    with suppress(ImportError, AttributeError):  # as Ray does for clusters that it finds itself
        from ray._private.authentication import authentication_token_setup as tokens

        use_token: Any = tokens.maybe_enable_token_auth_if_token_available
        with _quietly():
            use_token(warn_if_disabled=False)
    _connect(address, address)


def _connect(address: str | None, named: str) -> None:
    """
    Args:
        named: the same for messages and for a look whether anybody listens.
    """
    try:
        knock(named)
        with _quietly():
            ray.init(
                address=address,
                namespace=NAMESPACE,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
            )
    except (AuthenticationError, OSError) as error:
        if _is_about_token(error):
            raise _refused(named) from error
        raise ServiceUnavailableError(
            f"no Ray cluster answers at address {named!r} ({error}): start one "
            "(ray start --head), or correct the address",
            address=named,
        ) from error
    except ValueError as error:
        raise OptionError(
            f"address {named!r} is not of a Ray cluster: give 'auto' for the running one, or "
            "host:port",
            key="address",
            value=named,
        ) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence what Ray tells of its start, which is for those who start it by hand."""
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _is_about_token(error: BaseException | None) -> bool:
    """Whether a token was refused; Ray says it in the text of what caused the error."""
    while error is not None:
        if isinstance(error, AuthenticationError) or "AuthenticationError" in str(error):
            return True
        error = error.__cause__
    return False


def _refused(address: str) -> ServiceUnavailableError:
    mode = os.environ.get("RAY_AUTH_MODE", "not set")
    return ServiceUnavailableError(
        f"the Ray cluster at address {address!r} refuses this process's token (RAY_AUTH_MODE is "
        f"{mode}): set RAY_AUTH_MODE=token before Python starts, and give both the same token "
        "(RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token)",
        address=address,
    )


def _provide_java() -> None:
    """Put a Java on PATH, if there is one: RayDP's executors run that which Ray started with."""
    if is_installed("raydp"):
        with suppress(ServiceUnavailableError, UnsupportedError):
            use_java()


_PATIENCE_SECONDS = 60.0
"""Bounds how long another process may start a cluster before this one starts its own."""
_LOOK_SECONDS = 0.1
"""Between two looks whether the other process has finished."""
_MOST_BYTES = 4096
"""The file holds an address and a process: what is longer is not ours."""


class _Started(msgspec.Struct, frozen=True):
    address: str
    pid: int


class KnownCluster:
    """A file that names the cluster which the first of some processes has started.

    Only processes of the same Python environment and pkray share one: actors run the code of the
    process that started the cluster.

    Args:
        path: of the file; None where the disk refuses, and nothing is known.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path

    @staticmethod
    def of_user() -> KnownCluster:
        """Name the file of this user and environment."""
        try:
            folder = private_directory(f"{default_local_directory()}/clusters")
        except (OSError, StorageError):
            return KnownCluster(None)
        code = f"{sys.prefix}\n{__file__}"
        return KnownCluster(f"{folder}/{hashlib.blake2b(code.encode(), digest_size=8).hexdigest()}")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the file's lock: of processes that start at a time, one starts a cluster."""
        file = self._open()
        try:
            end = time.monotonic() + _PATIENCE_SECONDS
            while file is not None and not try_lock(file) and time.monotonic() < end:
                time.sleep(_LOOK_SECONDS)
            yield
        finally:
            if file is not None:
                os.close(file)

    def find(self) -> tuple[str, int] | None:
        """Find the address of the cluster, if it answers, and the process that it ends with."""
        file = self._open()
        if file is None:
            return None
        try:
            known = msgspec.json.decode(os.pread(file, _MOST_BYTES, 0), type=_Started)
        except (OSError, msgspec.DecodeError):
            return None
        finally:
            os.close(file)
        is_there = _lives(known.pid) and answers(known.address)
        return (known.address, known.pid) if is_there else None

    def note(self, address: str) -> None:
        """Note that this process has started the cluster at an address."""
        file = self._open()
        if file is None:
            return
        with suppress(OSError):
            data = msgspec.json.encode(_Started(address, os.getpid()))
            os.ftruncate(file, 0)
            os.pwrite(file, data, 0)
        os.close(file)

    def _open(self) -> int | None:
        with suppress(OSError):
            return None if self._path is None else private_file(self._path)
        return None


def lasting_cluster() -> str | None:
    """Find the address of the cluster that ``ray start`` has started on this machine, if it
    answers."""
    folder = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    with suppress(OSError):
        address = (Path(folder) / "ray" / "ray_current_cluster").read_text().strip()
        return address if answers(address) else None
    return None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


_ANSWER_SECONDS = 10.0
"""A host that is there answers at once; one that is not would be waited for two minutes."""


def knock(address: str | None) -> None:
    """Connect to ``host:port``, of which there may be none in the address.

    Ray asks again for minutes, and then ends the process.

    Raises:
        OSError: nobody listens there.
    """
    host, colon, port = (address or "").rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()


def answers(address: str) -> bool:
    """Whether somebody listens there."""
    try:
        knock(address)
    except OSError:
        return False
    return True
