"""Keep what a bucket writer has handed over, and does not know to be committed."""

import msgspec

from pkray.format.commit_message import CommitMessage, files_digest
from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import DELETION_VECTORS
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.deletion_files import write_vectors
from pkray.lsm.levels import Levels, Vectors, united


class PreparedMessages:
    """Keeps messages in the order that they were made, and the older rows that they replace."""

    def __init__(self) -> None:
        self._messages: list[CommitMessage] = []
        self._marked: Vectors = {}

    @property
    def new_files(self) -> list[DataFileMeta]:
        return [file for message in self._messages for file in message.new_files]

    @property
    def changelog_files(self) -> list[DataFileMeta]:
        return [file for message in self._messages for file in message.changelog_files]

    def add(self, message: CommitMessage, marked: Vectors) -> None:
        """Keep a message."""
        self._messages.append(message)
        self._marked = united(self._marked, marked)

    def on(self, levels: Levels) -> Levels:
        """Return committed files as they are once these messages are committed, too."""
        for message in self._messages:
            levels = levels.apply((), message.new_files)
            levels = levels.apply(message.compact_before, message.compact_after)
        return levels.apply((), (), self._marked)

    def with_vectors(
        self, message: CommitMessage, base: Levels, levels: Levels, files: DataFileStore
    ) -> CommitMessage:
        """Write new index files for a message, if rows were marked or files with marked rows went.

        Args:
            message: the next one.
            base: the files before it.
            levels: the files after it.
        """
        upper = ((file.level, file.file_name) for file in base.files if file.level > 0)
        message = msgspec.structs.replace(message, upper_files=files_digest(upper))
        if levels.vectors == base.vectors:
            return message
        target = files.schema.core.deletion_vector_index_file_target_size
        written = write_vectors(files.store, files.names, levels.vectors, target)
        return msgspec.structs.replace(
            message,
            index_files=written,
            removed_index_types=() if written else (DELETION_VECTORS,),
            index_base=self._vector_files(levels),
        )

    def _vector_files(self, levels: Levels) -> tuple[str, ...]:
        """Return the names of the index files that are there once these messages are committed."""
        for message in reversed(self._messages):
            if DELETION_VECTORS in message.index_types:
                return tuple(
                    file.file_name
                    for file in message.index_files
                    if file.index_type == DELETION_VECTORS
                )
        return levels.vector_files
