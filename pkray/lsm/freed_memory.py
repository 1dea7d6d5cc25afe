"""Memory that rows have left, and that allocators keep."""

from __future__ import annotations

import ctypes
import threading

import pyarrow as pa


class _Thread(threading.local):
    worked = 0


_thread = _Thread()
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc; other C libraries keep less."""


def give_back(worked: int, enough: int) -> None:
    """Return freed memory to the operating system, whenever this thread has done enough work.

    Arrow's allocator and the C library's keep what a thread has freed for the thread's next rows:
    up to three times what is in use, for as long as none come. Taking pages anew costs time, so
    that small steps do not return what they leave.

    Args:
        worked: bytes of rows that were written or merged since the last call.
        enough: bytes. A part of ``write-buffer-size``, as what may be kept goes with it.
    """
    _thread.worked += worked
    if _thread.worked >= enough:
        _thread.worked = 0
        pa.default_memory_pool().release_unused()
        if _trim is not None:
            _trim(0)
