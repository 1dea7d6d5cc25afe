"""Return memory that rows have freed, and that allocators keep, to the operating system."""

import ctypes
import threading

import numpy as np
import pyarrow as pa

KEPT_BYTES = 32 << 20
"""For each thread; see `raise_trim_threshold`."""


class _Thread(threading.local):
    worked = 0


_thread = _Thread()
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc's; other C libraries have none, and keep less."""


def release_freed_memory(worked_bytes: int, threshold_bytes: int) -> None:
    """Return freed memory to the operating system, whenever this thread has done enough work.

    Arrow's allocator and the C library's keep what a thread has freed for the thread's next rows:
    up to three times what is in use, for as long as none come. Taking pages anew costs time, so
    that small steps do not return what they leave.

    Args:
        worked_bytes: of rows that were written or merged since the last call.
        threshold_bytes: what is enough work. A part of ``write-buffer-size``, as what may be kept
            goes with it.
    """
    _thread.worked += worked_bytes
    if _thread.worked >= threshold_bytes:
        _thread.worked = 0
        pa.default_memory_pool().release_unused()
        if _trim is not None:
            _trim(0)


def raise_trim_threshold() -> None:
    """Let the C library keep up to `KEPT_BYTES` of freed memory a thread, so that it is used again.

    glibc returns what is freed at the end of its heap beyond twice the largest block that was
    freed so far, which in a new process is little: clearing the pages of each slice of rows anew
    is a twentieth of what a compaction costs. No page of this block is touched. Other allocators
    take no notice.
    """
    np.empty(KEPT_BYTES // 2, np.uint8)
