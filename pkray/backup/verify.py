"""Proves a backup without restoring it."""

from collections.abc import Callable, Collection

import msgspec

from pkray.backup.stored import BackupStore
from pkray.backup.table_files import shared_files
from pkray.backup.unit import TABLE, Copied, Unit, UnitFiles, look_at
from pkray.errors import BackupError, CorruptFileError, MissingFileError, StorageError
from pkray.storage.object_store import ObjectStore, ahead


class Fault(msgspec.Struct, frozen=True):
    """Names something wrong in a backup.

    Attributes:
        name: of the table or query.
        path: of the file, relative to the table or query; empty: of its list.
        what: is wrong.
    """

    name: str
    path: str
    what: str


def verify(
    store: BackupStore, name: str, progress: Callable[[int, int], None], *, quick: bool
) -> list[Fault]:
    """List what is wrong with a backup; nothing where it can be restored.

    Args:
        quick: look at names and sizes, and read no data.

    Raises:
        BackupNotFoundError: there is none of this name.
        CorruptFileError: what says what it holds is damaged.
    """
    backup = store.read(name)
    total, done = sum(each.bytes for each in backup.units), 0
    faults: list[Fault] = []
    for unit in backup.units:
        try:
            files = store.files(name, unit)
        except (BackupError, CorruptFileError) as error:
            faults.append(Fault(unit.name, "", str(error)))
            continue
        faults += missing(store.store, unit, files)
        lost = {each.path for each in faults if each.name == unit.name}
        if not quick:
            faults += damaged(store.store, unit, files, lost)
        if unit.kind == TABLE and not lost:
            faults += _unled(store.store, unit, files)
        done += unit.bytes
        progress(done, total)
    return faults


def missing(store: ObjectStore, unit: Unit, files: UnitFiles) -> list[Fault]:
    """List the files of a unit that are gone, or have another size."""
    there = {each.path: each.size for each in store.child(unit.folder).list("")}
    return [
        Fault(unit.name, path, "it is gone" if path not in there else "it has another size")
        for path, known in files.shared.items()
        if there.get(path) != known.size
    ]


def damaged(
    store: ObjectStore, unit: Unit, files: UnitFiles, lost: Collection[str] = ()
) -> list[Fault]:
    """List the files of a unit whose content is not what was copied, but for those of `lost`."""
    folder = store.child(unit.folder)

    def look(entry: tuple[str, Copied]) -> Fault | None:
        path, known = entry
        try:
            is_same = look_at(folder, path) == known
        except StorageError as error:
            return Fault(unit.name, path, str(error))
        return None if is_same else Fault(unit.name, path, "it is not as it was copied")

    entries = ((path, known) for path, known in files.shared.items() if path not in lost)
    return [each for each in ahead(store, look, entries) if each is not None]


def _unled(store: ObjectStore, unit: Unit, files: UnitFiles) -> list[Fault]:
    """List what a table's snapshots lead to that is not in its list."""
    try:
        led = shared_files(files.small, store.child(unit.folder), unit.name)
    except (MissingFileError, CorruptFileError) as error:
        return [Fault(unit.name, "", str(error))]
    return [Fault(unit.name, path, "it is not listed") for path in led.keys() - files.shared.keys()]
