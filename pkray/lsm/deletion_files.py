"""Write and read the index files in which a bucket's deletion vectors lie."""

from collections.abc import Container, Iterable

from pkray.format import paths
from pkray.format.deletion_vector import DeletionVector, read_index, write_index
from pkray.format.index_file import DELETION_VECTORS, IndexFileMeta, own_path
from pkray.lsm.levels import Vectors
from pkray.storage.object_store import ObjectStore


def write_vectors(
    store: ObjectStore, names: paths.FileNames, vectors: Vectors, target_size: int
) -> tuple[IndexFileMeta, ...]:
    """Write a bucket's vectors to new index files, sorted by data file.

    Args:
        store: the table's root.
        target_size: bytes of a file, about. Source: ``deletion-vector.index-file.target-size``.
    """
    written = []
    in_order = {name: vectors[name] for name in sorted(vectors)}
    for data, ranges in write_index(in_order, target_size):
        name = names.index()
        store.write(paths.index(name), data)
        written.append(
            IndexFileMeta(
                index_type=DELETION_VECTORS,
                file_name=name,
                file_size=len(data),
                row_count=len(ranges),
                deletion_vectors=ranges,
            )
        )
    return tuple(written)


def read_vectors(
    store: ObjectStore,
    index_files: Iterable[IndexFileMeta],
    data_files: Container[str] | None = None,
) -> dict[str, DeletionVector]:
    """Read the vectors in a bucket's index files; of some data files, or of all.

    Raises:
        MissingFileError: an index file is gone.
        CorruptFileError: it is damaged.
        UnsupportedError: it lies elsewhere, or is of an unknown kind.
    """
    vectors: dict[str, DeletionVector] = {}
    for file in index_files:
        wanted = [
            each
            for each in file.deletion_vectors or ()
            if data_files is None or each.data_file in data_files
        ]
        if wanted:
            path = own_path(file)
            vectors.update(read_index(store.read(path), wanted, store.location(path)))
    return vectors
