"""Find the files whose rows are a read's rows: readers of Parquet can take them as they are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pkray.format.data_file import DataFileMeta
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.keys.sections import sections
from pkray.lsm.levels import Levels
from pkray.scan.split import Split
from pkray.storage.object_store import ObjectStore


def divided(splits: Iterable[Split], store: ObjectStore) -> tuple[list[str], list[Split]]:
    """Divide splits into files that need no work, and splits of the others.

    Nothing has to be done with a file that overlaps no other run, holds no -U and no -D, has no
    deletion vector and the read's own columns, in a table without default values. What filters
    leave out of rows is not looked at.

    Args:
        store: the table's root.

    Returns:
        paths relative to the root, and what has to be read as a table.
    """
    raw: list[str] = []
    others: list[Split] = []
    for split in splits:
        files = DataFileStore(store, split.schema, split.partition, split.bucket)
        groups = [] if split.schema.default_values else list(_together(split))
        kept = [file for group in groups if _is_raw(group, split, files) for file in group]
        raw += [files.path(file.file_name) for file in kept]
        names = {file.file_name for file in kept}
        rest = tuple(file for file in split.files if file.file_name not in names)
        if rest:
            others.append(replace(split, files=rest))
    return raw, others


def _together(split: Split) -> Iterator[Sequence[DataFileMeta]]:
    """Group the files whose rows no other file replaces, each group by itself."""
    if split.schema.core.deletion_vectors_enabled:
        marked = {
            each.data_file for index in split.vector_files for each in index.deletion_vectors or ()
        }
        yield from ([file] for file in split.files if file.file_name not in marked)
        return
    for section in sections(Levels(split.files).runs(), split.schema):
        if len(section.runs) == 1:
            yield section.files


def _is_raw(group: Sequence[DataFileMeta], split: Split, files: DataFileStore) -> bool:
    return all(
        file.delete_row_count == 0
        and file.external_path is None
        and file.file_name.endswith(".parquet")
        and files.evolution(file) is None
        for file in group
    )
