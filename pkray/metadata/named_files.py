"""Finds the files of a folder that begin alike, such as snapshots, by listing or by hints.

Hint files hold the id that a folder's files begin or end with, to save listing it. They are never
trusted: a wrong or missing one costs time, not correctness.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from pkray.errors import CorruptFileError, StorageError
from pkray.metadata.metadata_cache import metadata
from pkray.storage.object_store import FileStatus, ObjectStore, each


def named_files(
    store: ObjectStore, prefix: str, matches: Callable[[str], bool] = bool
) -> Iterator[tuple[str, FileStatus]]:
    """Yield what follows the prefix in the names of a folder's files, with the files.

    Args:
        prefix: the folder, and the beginning of names: ``tag/tag-``.
        matches: whether a name is one of those, by what follows the prefix.

    Raises:
        CorruptFileError: a folder has such a name, so that something would seem not to be there.
    """
    folder = prefix.rpartition("/")[0]
    if store.local_path(folder) is not None:
        for path in store.list_dirs(folder):
            if path.startswith(prefix) and matches(path.removeprefix(prefix)):
                raise CorruptFileError(
                    f"{store.location(path)!r} is a directory where a file belongs: move it away, "
                    "and restore what was there",
                    path=path,
                )
    for file in store.list(folder, recursive=False):
        name = file.path.removeprefix(prefix)
        if file.path.startswith(prefix) and matches(name):
            yield name, file


def numbered_files(store: ObjectStore, prefix: str) -> Iterator[tuple[int, FileStatus]]:
    """Yield the files of a folder that are named by numbers, in any order; see `named_files`."""
    for name, file in named_files(store, prefix, _is_number):
        yield int(name), file


def _is_number(text: str) -> bool:
    """Whether it is a number as it is written in names: ``007`` and other scripts' are not."""
    return text.isascii() and text.isdecimal() and (text[0] != "0" or text == "0")


def read_hint(store: ObjectStore, path: str) -> int | None:
    """Read the id that a hint holds; None where there is none."""
    try:
        text = store.read(path).decode("ascii", "replace").strip()
    except StorageError:
        return None
    return int(text) if text.isdecimal() and len(text) < 19 else None


def recalled_hint(store: ObjectStore, path: str) -> int:
    """Return what this process last knew of what a hint says, or else read it; 0: nothing."""
    if store.local_path("") is not None:
        return read_hint(store, path) or 0
    known: int | None = metadata.get(("hint", store.location(path)))
    if known is None:
        known = read_hint(store, path) or 0
        recall(store, path, known)
    return known


def known_hint(store: ObjectStore, path: str) -> int:
    """Return what this process last knew of what a hint says, without a request; 0: nothing."""
    known: int | None = metadata.get(("hint", store.location(path)))
    return known or 0


def recall(store: ObjectStore, path: str, number: int) -> None:
    """Have this process know what a hint should say, so as not to read it."""
    if store.local_path("") is None:
        metadata.put(("hint", store.location(path)), number)


def find_earliest(
    store: ObjectStore,
    hint_path: str,
    exists: Callable[[int], bool],
    ids: Callable[[], Sequence[int]],
) -> int | None:
    """Find the lowest number in use, where numbers are contiguous; None where there is none.

    Args:
        hint_path: of the hint that says it.
        exists: whether a number is in use.
        ids: lists all of them.
    """
    hint = recalled_hint(store, hint_path)
    if hint == 1:
        is_it = exists(1)
    else:
        is_it = hint > 1 and each(store, exists, (hint, hint - 1)) == [True, False]
    if is_it:
        return hint
    earliest = min(ids(), default=None)
    recall(store, hint_path, earliest or 0)
    return earliest


def write_hint(store: ObjectStore, path: str, number: int) -> None:
    """Write an id to a hint, if that can be: the file of that id is there either way."""
    with contextlib.suppress(StorageError):
        store.write(path, str(number).encode())
        recall(store, path, number)
