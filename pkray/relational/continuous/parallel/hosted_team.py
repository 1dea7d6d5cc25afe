"""Workers of a query in processes of their own."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pkray.errors import ServiceUnavailableError
from pkray.relational.continuous.exchange.mailbox import Letter
from pkray.relational.continuous.exchange.peers import Send
from pkray.relational.continuous.parallel.team import START_SECONDS, Member, OpenShare, Team
from pkray.service.hosted import Caller, Hosted, Hosting, Room
from pkray.service.timing.pulse import Pulse

_START_SECONDS = START_SECONDS * 0.9
"""For how long a process that may be loading its modules may be silent: before it is given up."""
_AGAIN_SECONDS = 0.2
_TRIES = 50
"""Sends a letter for ten seconds, in which others have what a lost worker had."""


class HostedMember:
    """A member in its own process; hosted as work that does nothing by itself.

    Args:
        open_share: opens what it computes with.
        send: reaches the other workers.
        room: what its states may take.
    """

    def __init__(self, open_share: OpenShare, send: Send, room: Room) -> None:
        self.room = room
        self._member = Member(open_share, send)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return getattr(self._member, method)

    def status(self) -> dict[str, Any]:
        """Say which process it is."""
        return {"process": os.getpid()}

    @property
    def is_running(self) -> bool:
        """Whether it may still do something: until its process ends."""
        return True

    def close(self) -> None:
        """Forget what no checkpoint has, as another process is to have its share."""
        self._member.leave()


class Post:
    """Sends letters to the workers of a query by the names of their processes.

    Args:
        name: of the process of the first worker.
    """

    def __init__(self, hosting: Hosting, name: str) -> None:
        self._hosting = hosting
        self._name = name
        self._callers: dict[int, Caller] = {}
        self._lock = threading.Lock()
        self._returned: list[tuple[int, Letter, int]] = []
        self._pulse = Pulse(self._send_again, _AGAIN_SECONDS, "pkray-letters")

    def send(self, to: int, letter: Letter) -> None:
        """Send a letter, again where its reader is not where it was; one that comes twice does no
        harm."""
        if to not in self._callers:
            self._callers[to] = self._hosting.caller(member_name(self._name, to))
        self._send(to, letter, _TRIES)

    def _send(self, to: int, letter: Letter, left: int) -> None:
        def sent(done: Future[Any]) -> None:
            if left > 1 and isinstance(done.exception(), ServiceUnavailableError):
                with self._lock:
                    self._returned.append((to, letter, left - 1))
                self._pulse.start()

        self._callers[to].call("deliver", letter).add_done_callback(sent)

    def _send_again(self) -> bool:
        with self._lock:
            letters, self._returned = self._returned, []
        for each in letters:
            self._send(*each)
        return bool(self._returned)


class HostedHandle:
    """Reaches a member in another process, which is begun anew where it is silent for too long.

    Args:
        name: of the process.
        clock: seconds.
    """

    def __init__(
        self, hosting: Hosting, name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._hosting = hosting
        self._name = name
        self._clock = clock
        self._caller = hosting.caller(name)
        self._asked: Future[Any] | None = None
        self._asked_at = 0.0

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        return self._caller.call(method, *arguments)

    def check(self, *, is_starting: bool) -> None:
        """Check that the process answers; one that has not for `call_timeout` is begun anew.

        Raises:
            ServiceUnavailableError: it has not.
        """
        if self._asked is None or self._asked.done():
            self._asked, self._asked_at = self.call("status"), self._clock()
        silent, most = self._clock() - self._asked_at, self._hosting.silent_seconds
        if silent < (max(most, _START_SECONDS) if is_starting else most):
            return
        self._asked = None
        self._hosting.replace(self._name)
        raise ServiceUnavailableError(
            f"{self._name} has not answered for {silent:.0f} s (call_timeout): its process is "
            "stopped, or its machine; it is begun anew"
        )

    def close(self) -> None:
        return  # its process goes on, for the next run


def member_name(name: str, number: int) -> str:
    """Name the process of a worker, by that of the first one."""
    return f"{name}/{number}" if number else name


class HostedTeams:
    """Makes the teams of the runs of a query, whose members are other processes.

    Args:
        name: of this process, in which the runs are.
        start: starts the process of a member, if it is not there, by its number and how many
            workers there are; gives its name.
        check: called before a run that follows one in which the process of a member ended; raises
            an error where the query is not to go on here.
    """

    def __init__(
        self,
        hosting: Hosting,
        name: str,
        start: Callable[[int, int], str],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._hosting = hosting
        self._check = check
        self._post = Post(hosting, name)
        self._start = start
        self._team: Team | None = None

    def open(self, count: int, run: int) -> Team:
        """Make the team of a run."""
        before, self._team = self._team, None
        if before is not None and before.has_lost_member:
            self._check()
        members = [
            HostedHandle(self._hosting, self._start(number, count)) for number in range(1, count)
        ]
        self._team = Team(members, run, self._post.send)
        return self._team

    def stop_waiting(self) -> None:
        """Wait no more for members that have not begun to work."""
        if self._team is not None and not self._team.has_joined:
            self._team.fail(ServiceUnavailableError("the query is stopped"))

    def deliver(self, letter: Letter) -> None:
        """Take in what a member sends to the first worker."""
        if self._team is not None:
            self._team.mailbox.put(letter)


class HostedQuery:
    """The worker of a query that is the first of its team, in its own process: `Hosted` work.

    Args:
        worker: runs the query.
        teams: to which the other workers send.
        room: what its states may take.
    """

    def __init__(self, worker: Hosted, teams: HostedTeams, room: Room) -> None:
        self.room = room
        self._worker = worker
        self._teams = teams

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)

    def stop(self, seconds: float) -> bool:
        """End it; false where that takes longer."""
        self._teams.stop_waiting()
        return self._worker.stop(seconds)

    def deliver(self, letter: Letter) -> None:
        """Take in what another worker sends to the first one."""
        self._teams.deliver(letter)
