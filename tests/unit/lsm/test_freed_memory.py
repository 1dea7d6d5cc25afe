"""Memory that was freed goes back to the operating system."""

import threading
from pathlib import Path

import numpy as np
import pytest

from pkray.lsm import freed_memory
from pkray.lsm.freed_memory import release_freed_memory

MB = 1 << 20
STATUS = Path("/proc/self/status")

pytestmark = pytest.mark.skipif(
    freed_memory._trim is None or not STATUS.exists(), reason="glibc on Linux"
)


def resident() -> int:
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


def on_new_thread(work) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_what_was_freed_is_given_back_after_enough_work() -> None:
    kept: list[np.ndarray] = []
    seen: list[int] = []

    def work() -> None:
        arrays = [np.ones(60_000, np.uint8) for _ in range(1000)]
        kept.append(arrays[-1])  # above all that is freed: nothing is given back by itself
        del arrays
        for worked in (0, MB - 1, 1):
            release_freed_memory(worked, MB)
            seen.append(resident())

    on_new_thread(work)
    _, after_some, after_enough = seen
    assert after_some - after_enough > 40 * MB


def test_each_thread_works_for_itself(monkeypatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(freed_memory, "_trim", calls.append)
    for _ in range(2):
        on_new_thread(lambda: release_freed_memory(MB - 1, MB))
    assert calls == []
    on_new_thread(lambda: release_freed_memory(MB, MB))
    assert calls == [0]
