"""Hint files: the id that a folder's files begin or end with, to save listing it.

They are never trusted: a wrong or missing one costs time, not correctness.
"""

from __future__ import annotations

import contextlib

from pkray.errors import StorageError
from pkray.storage.object_store import ObjectStore


def read_hint(store: ObjectStore, path: str) -> int | None:
    """Return the id that it holds; None where there is none."""
    try:
        text = store.read(path).decode("ascii", "replace").strip()
    except StorageError:
        return None
    return int(text) if text.isdecimal() and len(text) < 19 else None


def write_hint(store: ObjectStore, path: str, number: int) -> None:
    """Let it hold an id, if that can be: the file of that id is there either way."""
    with contextlib.suppress(StorageError):
        store.write(path, str(number).encode())
