"""How long a call to an actor is waited for, and when the actor is replaced; no cluster."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from ray.exceptions import GetTimeoutError

from pkray.errors import OptionError, ServiceUnavailableError
from pkray.service.call_limits import CallLimits
from pkray.service.calls import CoordinatorClient, OwnerClient
from pkray.service.progress import LOOKUPS
from pkray.service.ray import callee
from pkray.service.ray.handle import RayHandle
from pkray.service.ray.runtime import RayRuntime

LIMITS = CallLimits(call_seconds=60, lookup_seconds=10)


@dataclass
class FakeRay:
    """Time that passes while one waits, and an actor that works, hangs or is stopped.

    Args:
        answers_after: seconds until a call is answered.
        stopped: it gives no sign of life.
        works_until: seconds until which it gets on.
        has_others: other lookups come and go meanwhile.
        restarts: whether a kill makes it answer.
    """

    answers_after: float = 1e9
    stopped: bool = False
    works_until: float = 0
    has_others: bool = False
    restarts: bool = False
    now: float = 0
    killed: list[float] = field(default_factory=list)

    def clock(self):
        return self.now

    def get(self, ref, timeout):
        if ref == "sign":
            return "10.0.0.7", min(self.now, self.works_until)
        if ref == "sign of lookups":
            times = {7: min(self.now, self.works_until)}
            times |= {100 + int(self.now): self.now} if self.has_others else {}
            return "10.0.0.7", (1, tuple(times.items()))
        self.now += timeout
        if self.now < self.answers_after:
            raise GetTimeoutError
        return "answer"

    def wait(self, refs, timeout):
        return ([], refs) if self.stopped else (refs, [])

    def kill(self, actor, no_restart):
        assert not no_restart
        self.killed.append(self.now)
        if self.restarts:
            self.answers_after = self.now + 6

    def __getattr__(self, method):
        return Method("sign" if method == "sign_of_life" else method)


@dataclass
class Method:
    ref: str

    def remote(self, *arguments):
        return Ref(f"{self.ref} of lookups" if arguments == (LOOKUPS,) else self.ref)


class Ref(str):
    """An answer that is due.

    Attributes:
        left: those that somebody else takes, whenever they come.
    """

    left: ClassVar[list[str]] = []

    def future(self):
        self.left.append(self)


@pytest.fixture
def handle_of(monkeypatch):
    """A handle to the actor of a fake cluster."""

    def make(fake):
        monkeypatch.setattr(callee, "ray", fake)
        monkeypatch.setattr(callee.time, "sleep", lambda _: None)
        handle = RayHandle(fake, "owner 1 of table db.t", LIMITS)
        handle._callee.clock, handle._callee.left_alone_until = fake.clock, 20
        monkeypatch.setattr("pkray.service.ray.handle.time.monotonic", fake.clock)
        monkeypatch.setattr("pkray.service.handles.handle.time.monotonic", fake.clock)
        return handle

    return make


def test_a_stopped_owner_is_killed_after_a_minute_and_named(handle_of):
    fake = FakeRay(stopped=True)
    with pytest.raises(ServiceUnavailableError, match=r"owner 1 of table db\.t .* 60 s") as caught:
        handle_of(fake).call_once(OwnerClient.prepare)
    assert fake.killed == [pytest.approx(60, abs=1)]
    assert caught.value.callee == "owner 1 of table db.t"


def test_a_call_that_hangs_in_a_living_owner_names_its_node(handle_of):
    fake = FakeRay()
    with pytest.raises(ServiceUnavailableError, match=r"on node 10\.0\.0\.7 .* 60 s"):
        handle_of(fake).call_once(OwnerClient.prepare)
    assert fake.killed == [pytest.approx(60, abs=1)]


def test_a_late_error_of_a_call_that_was_cut_is_not_printed(handle_of, monkeypatch):
    monkeypatch.setattr(Ref, "left", [])
    with pytest.raises(ServiceUnavailableError):
        handle_of(FakeRay()).call_once(OwnerClient.prepare)
    assert Ref.left == ["prepare"]


def test_a_call_is_not_cut_while_it_gets_on(handle_of):
    fake = FakeRay(answers_after=1000, works_until=990)
    assert handle_of(fake).call_once(OwnerClient.prepare) == "answer"
    assert not fake.killed


def test_a_call_that_stops_getting_on_is_cut(handle_of):
    fake = FakeRay(works_until=500)
    with pytest.raises(ServiceUnavailableError):
        handle_of(fake).call_once(OwnerClient.prepare)
    assert fake.killed == [pytest.approx(560, abs=10)]


def test_a_call_that_may_be_repeated_is_answered_by_the_replacement(handle_of):
    fake = FakeRay(stopped=True, restarts=True)
    assert handle_of(fake).call(CoordinatorClient.commit) == "answer"
    assert len(fake.killed) == 1
    assert fake.now < 75


def test_lookups_end_after_ten_seconds_and_replace_what_is_silent_for_a_minute(handle_of):
    fake = FakeRay(stopped=True)
    handle = handle_of(fake)
    for number in range(1, 7):
        with pytest.raises(ServiceUnavailableError, match="within 10 s"):
            handle.call(OwnerClient.locate)
        assert fake.now == pytest.approx(10 * number, abs=2 * number)
    with pytest.raises(ServiceUnavailableError):
        handle.call(OwnerClient.locate)
    assert len(fake.killed) == 1


def test_a_lookup_that_takes_too_long_does_not_end_an_owner_that_lives(handle_of):
    fake = FakeRay()
    handle = handle_of(fake)
    for _ in range(20):
        with pytest.raises(ServiceUnavailableError):
            handle.call(OwnerClient.locate)
    assert not fake.killed


def test_a_lookup_is_not_cut_while_it_gets_on(handle_of):
    fake = FakeRay(answers_after=100, works_until=95)
    assert handle_of(fake).call_once(OwnerClient.locate) == "answer"


@pytest.mark.parametrize("has_others", [False, True])
def test_a_lookup_that_stops_getting_on_is_cut(handle_of, has_others):
    fake = FakeRay(works_until=40, has_others=has_others)
    with pytest.raises(ServiceUnavailableError, match="within 10 s without progress"):
        handle_of(fake).call_once(OwnerClient.locate)
    assert fake.now == pytest.approx(50, abs=4)
    assert not fake.killed


@pytest.mark.parametrize("seconds", [0, -1, 0.5, True, "60", None, float("nan"), float("inf")])
@pytest.mark.parametrize("key", ["call_timeout", "lookup_timeout"])
def test_a_limit_is_a_number_of_seconds(key, seconds):
    with pytest.raises(OptionError, match=key):
        RayRuntime(**{key: seconds})
