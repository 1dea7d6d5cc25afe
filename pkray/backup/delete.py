"""Deletes backups, and the files that no other one has."""

from pkray.backup.stored import BackupStore
from pkray.backup.turns import Turn
from pkray.storage.empty_folders import remove_empty_tree


def delete(store: BackupStore, name: str) -> int:
    """Delete a backup; return how many bytes that freed.

    What attempts left that were killed goes too.

    Raises:
        BackupNotFoundError: there is none of this name.
        BackupInUseError: another process changes the store.
        CorruptFileError: what another backup needs cannot be read: nothing is deleted.
    """
    store.read(name)
    with Turn(store.store, f"backup {name!r} is deleted") as turn:
        kept: dict[str, set[str]] = {}
        for other in store.names():
            if other != name:
                for unit in store.read(other).units:
                    kept.setdefault(unit.folder, set()).update(store.files(other, unit).shared)
        turn.check()
        store.remove(name)
        freed = 0
        for folder in store.store.list_dirs("files/"):
            own = f"{folder.rstrip('/')}/"
            unit_store = store.store.child(own)
            unnamed = [
                each
                for each in unit_store.list("", hidden=True)
                if each.path not in kept.get(own, ())
            ]
            unit_store.delete([each.path for each in unnamed])
            remove_empty_tree(unit_store)
            freed += sum(each.size for each in unnamed)
        return freed
