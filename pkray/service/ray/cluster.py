"""The Ray cluster that a process joins."""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import AuthenticationError

from pkray.errors import OptionError, ServiceUnavailableError, UnsupportedError
from pkray.extras import is_installed
from pkray.java import use_java
from pkray.service.ray.actors import NAMESPACE
from pkray.service.ray.known_cluster import KnownCluster, knock, lasting_cluster

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
