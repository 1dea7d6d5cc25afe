"""Requests to an object store whose answers are lost, now and then, all through a job."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from pkray.errors import StorageError
from pkray.storage import requests
from tests.faults.clean_run import CleanRun
from tests.faults.script import DELETION_VECTORS, LOOKUP_IN_SHORT, outcome

BROKEN_OFF = "HTTP error: request or response body error\n\nHttpError { kind: Interrupted }"
REQUESTS = ("get", "put", "head", "delete", "list_with_delimiter")


class Network:
    """Loses every so manieth answer, after the request was carried out; of a request that is
    repeated, while others are under way, not two in a row.

    Args:
        first: the first that is lost; default the last of the first so many.
    """

    def __init__(self, every: int, error: Callable[[], Exception], first: int = 0) -> None:
        self.every = every
        self.first = first
        self.error = error
        self.requests: Counter[str] = Counter()
        self.lost = 0
        self._owed = 0
        self._just_lost: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def through(self, request: Callable[..., Any]) -> Callable[..., Any]:
        def send(*args: Any, **kwargs: Any) -> Any:
            answer = request(*args, **kwargs)
            key = (request.__name__, str(args[1:2]))
            with self._lock:
                self.requests[request.__name__] += 1
                self._owed += self.requests.total() % self.every == self.first % self.every
                if self._owed and (self.every == 1 or key not in self._just_lost):
                    self._owed -= 1
                    self._just_lost.add(key)
                    self.lost += 1
                    raise self.error()
                self._just_lost.discard(key)
            return answer

        return send

    def replace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in REQUESTS:
            monkeypatch.setattr(obstore, name, self.through(getattr(obstore, name)))


@pytest.mark.parametrize("script", [LOOKUP_IN_SHORT, DELETION_VECTORS], ids=lambda s: s.name)
def test_lost_answers_of_requests_are_not_noticed(script, new_root, process, monkeypatch, survived):
    """Of every request once: where each third answer is lost and its request repeated, one job
    loses those of the odd requests, another those of the even ones."""
    monkeypatch.setattr(requests, "PAUSE_SECONDS", 0)
    run = CleanRun(script, new_root("memory"), process)
    lost = sent = 0
    for first in (1, 2):
        network = Network(3, lambda: GenericError(BROKEN_OFF), first)
        root = new_root("memory")
        with monkeypatch.context() as patched:
            network.replace(patched)
            with process(root) as catalog:
                for number, step in enumerate(script.steps):
                    step(catalog)
                    with process(root) as other:
                        assert outcome(other) == run.after[number]
        lost += network.lost
        sent += network.requests.total() - network.lost
    assert lost >= sent // 2 - 2  # the last of each job may still be owed
    survived(
        f"{script.name}: {lost} of {lost} lost answers were not noticed "
        f"({sent // 2} requests a job)"
    )


def test_what_will_fail_again_is_asked_once(new_root, process, monkeypatch):
    network = Network(1, lambda: PermissionDeniedError("403"))
    root = new_root("memory")
    create = LOOKUP_IN_SHORT.steps[0]
    with process(root) as catalog:
        network.replace(monkeypatch)
        with pytest.raises(StorageError, match="keys and rights"):
            create(catalog)
    assert set(network.requests.values()) == {1}
