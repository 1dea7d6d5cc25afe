"""Removes folders without files; only disks have any."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from pkray.storage.object_store import ObjectStore


def remove_empty_parents(store: ObjectStore, folders: Iterable[str]) -> None:
    """Remove folders that have become empty, and those above them."""
    for folder in folders:
        while folder:
            local = store.local_path(folder)
            if local is None:
                return
            try:
                Path(local).rmdir()
            except OSError:  # not empty, or gone
                break
            folder = folder.rpartition("/")[0]


def remove_empty_tree(store: ObjectStore) -> None:
    """Remove a store's own folder and those in it, where no file is."""
    root = store.local_path("")
    if root is None or Path(root).is_symlink():
        return
    for folder, _, _ in os.walk(root, topdown=False):
        with contextlib.suppress(OSError):  # not empty, or gone
            Path(folder).rmdir()
