"""Lists the files that commit messages hand over, and those of them that are missing."""

from collections.abc import Iterator, Sequence

from pkray.format import paths
from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import DataFileMeta
from pkray.format.partition import PartitionSpec
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore, each


def missing_files(
    store: ObjectStore, schema: TableSchema, messages: Sequence[CommitMessage]
) -> list[str]:
    """List the paths of new files that are not there, by a request each."""
    named = list(_new_files(schema, messages))
    there = each(store, store.exists, named)
    return [path for path, is_there in zip(named, there, strict=True) if not is_there]


def new_data_files(message: CommitMessage) -> Iterator[DataFileMeta]:
    """Yield the data and changelog files that a message adds."""
    yield from message.new_files
    yield from message.changelog_files
    yield from message.compact_after
    yield from message.compact_changelog_files


def _new_files(schema: TableSchema, messages: Sequence[CommitMessage]) -> Iterator[str]:
    partitions = PartitionSpec(schema)
    for message in messages:
        for file in new_data_files(message):
            yield from partitions.files(message.partition, message.bucket, file)
        for index in message.index_files:
            yield paths.index(index.file_name)
