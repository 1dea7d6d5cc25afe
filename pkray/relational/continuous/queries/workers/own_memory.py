"""Bounds the memory of a process that is a query's own."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_LOOK_SECONDS = 0.05
"""Between two looks: in which a process takes some hundred MB."""
_SLACK_BYTES = 1 << 30
"""Above the bound, for what is allocated and not used, as stacks of threads."""


def bound_memory(more: int, above: Callable[[int], None]) -> None:
    """Bound what this process takes beside what it takes now. Only Linux can.

    What is far above cannot be allocated at all, whoever holds the interpreter's lock meanwhile.

    Args:
        more: bytes.
        above: called, on a thread of its own, with the bytes that it takes when they are more.
    """
    if sys.platform != "linux":
        return
    import resource

    allocated = next(
        int(line.split()[1]) << 10
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData:")
    )
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = allocated + more + _SLACK_BYTES
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    before = _taken()

    def watch() -> None:
        while (taken := _taken() - before) <= more:
            time.sleep(_LOOK_SECONDS)
        above(taken)

    threading.Thread(target=watch, name="pkray-own-memory", daemon=True).start()


def _taken() -> int:
    """Give the bytes of memory that this process alone takes."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
