"""The workers beside the first, and how the leader leads them."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from pkray import spans
from pkray.errors import QueryFencedError, ServiceUnavailableError
from pkray.relational.continuous.exchange.mailbox import WAIT_SECONDS, Letter, Mailbox
from pkray.relational.continuous.exchange.peers import Peers, Send
from pkray.relational.continuous.log.log import EpochRecord
from pkray.relational.continuous.outlets.table_parts import PartWriter, TablePart
from pkray.relational.continuous.parallel.share import Assignment, Share
from pkray.relational.continuous.state.states import Files
from pkray.service.hosted import WorkLostError
from pkray.service.protocol import PushReport

START_SECONDS = 120.0
"""For how long the processes of members are waited for: they load their modules."""
_LOOK_SECONDS = 1.0
_NAME_SECONDS = 5.0
_END_SECONDS = 30.0
"""For how long the end of a run waits for each member to let go of what it holds."""


@dataclass(frozen=True)
class EpochReport:
    """Reports an epoch that a member has run.

    Attributes:
        process: its id.
        nodes: what each operator did so far.
        pushed: of each result, what it pushed to the table; None: nothing.
    """

    process: int
    nodes: list[dict[str, Any]]
    pushed: tuple[PushReport | None, ...]


OpenShare = Callable[[Assignment, Peers], Share]


class Member:
    """One worker beside the first: does what the leader says. For several threads.

    Args:
        open_share: opens what it computes with.
        send: reaches the others.
    """

    def __init__(self, open_share: OpenShare, send: Send) -> None:
        self._open_share = open_share
        self._send = send
        self._mailbox = Mailbox(-1)
        self._share: Share | None = None
        self._working = threading.Lock()

    def join(self, run: int) -> None:
        """Leave the run before, and take letters of this one.

        Raises:
            QueryFencedError: a later run was joined already.
        """
        if run < self._mailbox.run:
            raise _fenced(run)
        before, self._mailbox = self._mailbox, Mailbox(run)
        before.fail(_fenced(before.run))
        with self._working:
            self._close()

    def begin(self, assignment: Assignment) -> None:
        """Open this worker's share."""
        with self._working:
            mailbox = self._mailbox_of(assignment.run)
            peers = Peers(assignment.number, assignment.count, self._send, mailbox)
            self._share = self._open_share(assignment, peers)

    def run(
        self, run: int, record: EpochRecord, results: Sequence[TablePart | None]
    ) -> EpochReport:
        """Run an epoch; push this worker's part of the results.

        Args:
            results: as of `Share.run`.
        """
        with self._working, spans.span("share", epoch=record.number):
            share = self._share_of(run)
            number = share.peers.number
            writers = [None if each is None else PartWriter(each, number) for each in results]
            for made, _ in share.run(record, results):
                for writer, changes in zip(writers, made, strict=True):
                    if writer is not None and len(changes):
                        writer.give(changes)
            pushed = tuple(None if each is None else each.finish() for each in writers)
            return EpochReport(os.getpid(), share.nodes(), pushed)

    def running_node(self) -> str | None:
        """Name the operator that works, or that failed."""
        return None if self._share is None else self._share.graph.running_node

    def checkpoint(self, run: int) -> Files:
        """Write all states to files; list them."""
        with self._working:
            return self._share_of(run).states.checkpoint()

    def deliver(self, letter: Letter) -> None:
        """Take in what another worker sends."""
        self._mailbox.put(letter)

    def fail(self, run: int, reason: str) -> None:
        """End what is done for a run: it failed elsewhere."""
        self._mailbox_of(run).fail(ServiceUnavailableError(f"another worker failed: {reason}"))

    def end(self, run: int) -> None:
        """Forget what no checkpoint has."""
        self._mailbox_of(run).fail(_fenced(run))
        with self._working:
            self._close()

    def leave(self) -> None:
        """End what is done for any run, and forget what no checkpoint has."""
        self._mailbox.fail(ServiceUnavailableError("this worker goes on in another process"))
        with self._working:
            self._close()

    def _mailbox_of(self, run: int) -> Mailbox:
        if self._mailbox.run != run:
            raise _fenced(run)
        return self._mailbox

    def _share_of(self, run: int) -> Share:
        self._mailbox_of(run)
        if self._share is None:
            raise ServiceUnavailableError("a worker of a query has lost its share: it began anew")
        return self._share

    def _close(self) -> None:
        share, self._share = self._share, None
        if share is not None:
            share.close()


def _fenced(run: int) -> QueryFencedError:
    return QueryFencedError(
        f"a later run of the query took over its workers: run {run} stops", run=str(run)
    )


class MemberHandle(Protocol):
    """Reaches a member."""

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of `Member`; calls of one thread begin in their order."""

    def check(self, *, is_starting: bool) -> None:
        """Check that it answers; called every second while it is waited for.

        Args:
            is_starting: whether its process may still load its modules.

        Raises:
            ServiceUnavailableError: it does not, and is begun anew.
        """

    def close(self) -> None:
        """Let go of it."""


class Team:
    """The members, as the leader sees them.

    Attributes:
        mailbox: of the first worker.
        nodes: what each operator of each member did so far.
        processes: ids of the members' processes.
        has_joined: whether all members have begun to work.

    Args:
        members: in the order of their numbers, from 1.
        run: number of the run.
        send: reaches the members from the first worker.
    """

    def __init__(self, members: Sequence[MemberHandle], run: int, send: Send) -> None:
        self._members = members
        self._run = run
        self._working: list[Future[Any]] = []
        self._error: Exception | None = None
        self._failed: MemberHandle | None = None
        self._failing = threading.Lock()
        self.mailbox = Mailbox(run, self._check_late)
        self.peers = Peers(0, len(members) + 1, send, self.mailbox)
        self.nodes: list[list[dict[str, Any]]] = []
        self.processes: list[int] = []
        self.has_joined = False

    @property
    def workers(self) -> int:
        """Count the workers, with the first."""
        return self.peers.count

    def join(self) -> None:
        """Have all members take letters of this run.

        Raises:
            ServiceUnavailableError: one does not begin to work.
        """
        self._start("join")
        self._wait(
            START_SECONDS,
            f"not all of the {self.workers} workers of the query began to work within "
            f"{START_SECONDS:.0f} s: see whether the cluster has free what query.cpus and "
            "query.memory reserve",
        )
        self.has_joined = True

    def begin(self, assigned: Sequence[Assignment]) -> None:
        """Have all members open their shares; `wait` tells when they have."""
        self._working = [
            self._watched(member, member.call("begin", each))
            for member, each in zip(self._members, assigned[1:], strict=True)
        ]

    def run(self, record: EpochRecord, results: Sequence[TablePart | None]) -> None:
        """Have all members run an epoch; `finish` tells when they have."""
        self._start("run", record, results)

    def finish(self) -> list[list[PushReport]]:
        """Wait until all members have run the epoch; give of each result what they pushed."""
        told: list[EpochReport] = self.wait()
        self.processes = [each.process for each in told]
        self.nodes = [each.nodes for each in told]
        pushed = zip(*(each.pushed for each in told), strict=True)
        return [[one for one in of_result if one is not None] for of_result in pushed]

    @property
    def has_lost_member(self) -> bool:
        """Whether it failed as the process of a member ended."""
        return isinstance(self._error, WorkLostError)

    @property
    def failed_node(self) -> str | None:
        """Name the operator at which a member failed; None where none did, or it is gone."""
        if self._failed is None:
            return None
        with suppress(Exception):
            return str(self._failed.call("running_node").result(_NAME_SECONDS))
        return None

    def checkpoint(self) -> None:
        """Have all members write their states to files; `wait` gives these."""
        self._start("checkpoint")

    def wait(self) -> list[Any]:
        """Wait until all members have done what they were told; give what they say.

        Raises:
            ServiceUnavailableError: one is not there, or takes too long.
            Exception: one failed; the first of them.
        """
        return self._wait(
            WAIT_SECONDS, f"a worker of the query has not answered for {WAIT_SECONDS:.0f} s"
        )

    def _wait(self, seconds: float, said: str) -> list[Any]:
        deadline = time.monotonic() + seconds
        while True:
            done, late = wait_for(self._working, _LOOK_SECONDS, FIRST_EXCEPTION)
            error = next((each.exception() for each in done if each.exception()), None)
            if error is not None or self._error is not None:
                raise self._error or error or AssertionError
            if not late:
                return [each.result() for each in self._working]
            self._check_late()
            if time.monotonic() > deadline:
                raise ServiceUnavailableError(said)

    def _check_late(self) -> None:
        """Check that the members answer that have not done yet what they were told."""
        for member, work in zip(self._members, self._working, strict=False):
            if not work.done():
                try:
                    member.check(is_starting=not self.has_joined)
                except ServiceUnavailableError as error:
                    self._failed = self._failed if self._error else member
                    self.fail(error)

    def fail(self, error: Exception) -> None:
        """End what all do for this run; of several errors the first counts."""
        with self._failing:
            if self._error is not None:
                return
            self._error = error
        self.mailbox.fail(error)
        for member in self._members:
            with suppress(Exception):  # one that is gone does nothing any more
                member.call("fail", self._run, str(error))

    def close(self) -> None:
        """Have all members forget what no checkpoint has."""
        self.fail(_fenced(self._run))
        for member in self._members:
            if self.has_joined:
                with suppress(Exception):  # the next run has it leave this one
                    member.call("end", self._run).result(_END_SECONDS)
            member.close()

    def _start(self, method: str, *arguments: Any) -> None:
        self._working = [
            self._watched(member, member.call(method, self._run, *arguments))
            for member in self._members
        ]

    def _watched(self, member: MemberHandle, work: Future[Any]) -> Future[Any]:
        work.add_done_callback(lambda done: self._look(member, done))
        return work

    def _look(self, member: MemberHandle, work: Future[Any]) -> None:
        error = work.exception()
        if error is not None:
            self._failed = self._failed if self._error else member
            self.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))


class ThreadHandle:
    """Reaches a member in a thread of this process, which does not outlive the process."""

    def __init__(self, member: Member, name: str) -> None:
        self.member = member
        self._calls: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = (
            SimpleQueue()
        )
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        if method == "fail":  # while it works
            self._answer(answer, self.member.fail, arguments)
            return answer
        if method == "end":
            with suppress(QueryFencedError):
                self.member.fail(arguments[0], "the run ends")
        self._calls.put((answer, spans.carried(getattr(self.member, method)), arguments))
        return answer

    def check(self, *, is_starting: bool) -> None:
        return  # a thread is there as long as its process

    def close(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            self._answer(*call)

    @staticmethod
    def _answer(answer: Future[Any], call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            answer.set_result(call(*arguments))
        except Exception as error:
            answer.set_exception(error)


def thread_team(open_share: OpenShare, count: int, run: int) -> Team:
    """Make a team of threads.

    Args:
        count: of all workers, two or more.
    """

    def send(to: int, letter: Letter) -> None:
        if to:
            handles[to - 1].member.deliver(letter)
        else:
            team.mailbox.put(letter)

    handles = [
        ThreadHandle(Member(open_share, send), f"pkray-query-worker-{number}")
        for number in range(1, count)
    ]
    team = Team(handles, run, send)
    return team
