"""Processes of a cluster of its own, told from all others by their environment."""

import contextlib

import psutil

MARK = "PKRAY_TEST_CLUSTER"
"""Environment that all processes of one cluster have, and no others."""


def kill_marked(mark: str, but: int | None = None) -> int:
    """Kill all processes of a cluster at once; say how many.

    Args:
        but: a process that is left, not so its children.
    """
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark:  # Ray's workers write over their own
                found |= {process, *process.children(recursive=True)}
    found = {process for process in found if process.pid != but}
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(found, timeout=60)
    return len(found)
