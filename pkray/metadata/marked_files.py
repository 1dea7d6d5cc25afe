"""Files in memory by their marks, such as e-tags: a file with this mark has this content."""

from collections.abc import Hashable

from pkray.metadata.metadata_cache import metadata
from pkray.storage.object_store import ObjectStore


def read_marked(store: ObjectStore, path: str, mark: Hashable = None) -> bytes:
    """Read a file; one that was listed with a mark, from memory where it was read with that mark.

    Args:
        mark: as the listing has it; None: it was not listed.

    Raises:
        MissingFileError: there is none.
    """
    known = held(store, path, mark)
    if known is not None:
        return known
    data, found = store.read_marked(path)
    if isinstance(found, str):  # other marks are times, which two contents may have
        location = store.location(path)
        metadata.put((location, found), data)
        metadata.put(("read", location), found)
    return data


def held(store: ObjectStore, path: str, mark: Hashable) -> bytes | None:
    """Return the content of a file that was read with this mark; None where that is not known."""
    if not isinstance(mark, str):
        return None
    data: bytes | None = metadata.get((store.location(path), mark))
    return data


def was_read(store: ObjectStore, path: str) -> bool:
    """Whether this process has read a file: a listing is likely to have it as it was."""
    return metadata.get(("read", store.location(path))) is not None
