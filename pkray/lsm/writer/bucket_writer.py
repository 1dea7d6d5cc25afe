"""Do one commit user's uncommitted work on a bucket."""

from collections.abc import Collection

import pyarrow as pa

from pkray.clock import now_millis
from pkray.format.commit_message import CommitMessage
from pkray.lsm.bucket_files import Clock
from pkray.lsm.compaction.compactor import CompactionResult, Compactor
from pkray.lsm.compaction.pick import CompactionUnit, pick, pick_for_commit, pick_full
from pkray.lsm.compaction.upper_lookup import ScanLookup, UpperLevelLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.freed_memory import release_freed_memory
from pkray.lsm.levels import Levels
from pkray.lsm.record_expiry import files_to_purge
from pkray.lsm.writer.commit_increment import CommitIncrement
from pkray.lsm.writer.memtable import Memtable
from pkray.lsm.writer.prepared_messages import PreparedMessages
from pkray.lsm.writer.row_kinds import accepted_rows
from pkray.lsm.writer.uncommitted import Uncommitted
from pkray.schema.table_schema import TableSchema

MAX_MEMTABLE_BYTES = 1 << 30
"""A memtable is sorted in one piece: Arrow's strings of one piece end at 2 GB."""


class BucketWriter:
    """Takes rows, flushes them to level 0, compacts, and prepares commits.

    Nothing that it does shows before its messages are committed, and files that a message names
    are never deleted by it. Not thread-safe, but for `uncommitted`.

    Args:
        levels: the committed files to build on.
        lookup: finds old rows for the lookup changelog; by default the files are scanned.
        clock: epoch milliseconds.
        inline: compact whatever is due before flushes and commits return. Otherwise only what a
            commit promises: the rest is compacted elsewhere and comes by `adopt`.
        local_directory: on the local disk, for rows set aside; default below the system's
            temporary directory.

    Attributes:
        uncommitted: the writer's rows as they are now, whatever it is doing.
        levels: the committed files and this writer's own.

    Raises:
        UnsupportedError: the table's merge engine is not there.
    """

    def __init__(
        self,
        schema: TableSchema,
        files: DataFileStore,
        levels: Levels,
        lookup: UpperLevelLookup | None = None,
        *,
        clock: Clock = now_millis,
        inline: bool = True,
        local_directory: str | None = None,
    ) -> None:
        self.partition = files.partition
        self.bucket = files.bucket
        self._clock = clock
        self._local_directory = local_directory
        self._inline = inline
        self._use(schema, files, lookup)
        self._committed = levels
        self.levels = levels
        self._next_sequence = levels.max_sequence + 1
        self._prepared = PreparedMessages()
        self._base = levels
        self._increment = self._last_increment = CommitIncrement()
        self._show()

    @property
    def max_sequence(self) -> int:
        """The largest sequence number so far, rows in memory included; -1 without rows."""
        return self._next_sequence + self._memtable.rows - 1

    @property
    def memory_bytes(self) -> int:
        return self._memtable.bytes

    @property
    def memory_rows(self) -> int:
        return self._memtable.rows

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows with all value columns and ``_VALUE_KIND``; flush when memory is full.

        Raises:
            InputError: a bad value of ``rowkind.field``; none of the rows is taken.
        """
        accepted = self._engine.incoming(accepted_rows(rows, self.schema))
        limit = min(self._options.write_buffer_size, MAX_MEMTABLE_BYTES)
        if self._memtable.rows and self._memtable.bytes + accepted.nbytes > limit:
            self.flush()
        self._memtable.add(accepted)
        if self._memtable.bytes >= limit:
            self.flush()

    def change_schema(
        self, schema: TableSchema, files: DataFileStore, lookup: UpperLevelLookup | None = None
    ) -> None:
        """Change to a newer schema; rows in memory are written to level 0 under the old one.

        Args:
            files: of this bucket, under the new schema.
            lookup: likewise.
        """
        self._write_memory()
        self._use(schema, files, lookup)
        self._show()

    def flush(self) -> None:
        """Write the rows in memory to level 0, and compact what the rules pick then."""
        if self._memtable.rows:
            self._write_memory()
            if self._inline and not self._options.write_only and not self._engine.single_version:
                self._run(pick(self.levels.runs(), self._options))

    def compact(self, full: bool = False) -> None:
        """Flush, then compact what the rules pick, or everything."""
        self._write_memory()
        runs = self.levels.runs()
        if not full:
            self._run(pick(runs, self._options))
            return
        schemas, now = self._files.schema_of, self._clock()
        purged = files_to_purge(self.levels, self.schema, schemas, now)
        self._run(pick_full(runs, self._options, purged))

    def adopt(self, result: CompactionResult) -> None:
        """Take over what was compacted elsewhere, and hand it over with the next message.

        Its inputs are files that `rebase` was given, and its files are never deleted from here.
        """
        self._increment.absorb(result, created=False)
        self.levels = self.levels.apply(result.before, result.after, result.marked)

    def prepare_commit(
        self, *, full_compact: bool = False, compacting: Collection[str] = ()
    ) -> CommitMessage:
        """Flush, compact as the table's options ask, and hand the work over.

        Args:
            full_compact: compact everything first, even on a write-only table.
            compacting: names of files that are being compacted elsewhere; they are left alone. Not
                with ``full_compact``.
        """
        if full_compact:
            self.compact(full=True)
        self._write_memory()
        if not self._options.write_only:
            runs, inline = self.levels.runs(), self._inline
            self._run(pick_for_commit(runs, self.schema, self._engine, compacting, inline=inline))
        message = self._increment.message(self.schema, self.partition, self.bucket)
        if self._options.deletion_vectors_enabled:
            message = self._prepared.with_vectors(message, self._base, self.levels, self._files)
        self._files.delete(self._increment.unreferenced())
        self._prepared.add(message, self._increment.marked)
        self._base = self.levels
        self._last_increment, self._increment = self._increment, CommitIncrement()
        return message

    def undo_prepare(self) -> None:
        """Undo `prepare_commit`: nobody was given its message, nor one before that is not
        committed or requeued."""
        self._prepared = PreparedMessages()
        self._increment = self._last_increment
        self.rebase(self._committed)

    def committed(self, levels: Levels) -> None:
        """Take all messages handed over so far for committed; ``levels`` has them."""
        self._prepared = PreparedMessages()
        self.rebase(levels)

    def requeue(self, *, rewrite: bool = False) -> None:
        """Queue the rows of the messages handed over again: these will not be committed.

        Their files stay where they are: somebody may hold the messages still.

        Args:
            rewrite: in new files, as somebody may delete the old ones.

        Raises:
            MissingFileError: some are gone, and nothing is requeued.
        """
        self._increment.requeue(self._prepared, self._files if rewrite else None)
        self._prepared = PreparedMessages()
        self._show()

    def renew(self, age_millis: int) -> None:
        """Write again what was written so long ago and is not handed over: cleaners take old
        files that nothing names for orphans.

        Raises:
            MissingFileError: one did.
        """
        if self._increment.renew(self._files, self._files.clock() - age_millis):
            self.rebase(self._committed)

    def rebase(self, levels: Levels) -> None:
        """Build on these committed files from now on.

        Where others have committed rows since, this writer's get larger sequence numbers than
        those; and compactions not yet handed over are undone: their inputs may be gone and their
        changelog out of date.
        """
        if self._increment.compact_before and (levels != self._committed or not self._inline):
            self._increment.undo_compactions()
        self._committed = levels
        levels = self._prepared.on(levels)
        self._base = levels
        self._increment.renumber(self._files, levels.max_sequence)
        levels = levels.apply((), self._increment.new_files)
        self.levels = levels.apply(
            self._increment.compact_before.values(),
            self._increment.compact_after.values(),
            self._increment.marked,
        )
        self._next_sequence = max(self._next_sequence, self.levels.max_sequence + 1)
        self._show()

    def abort(self) -> None:
        """Forget the rows in memory, and delete the files that were not handed over."""
        own_files = self._increment.created
        self._increment = CommitIncrement()
        self.levels = self._committed
        self._memtable = Memtable(self.schema)
        self._show()
        self._files.delete(own_files)

    def _use(
        self, schema: TableSchema, files: DataFileStore, lookup: UpperLevelLookup | None
    ) -> None:
        self.schema = schema
        self._options = schema.core
        self._files = files
        self._engine = engine = merge_engine(schema)
        lookup = lookup or ScanLookup(schema, files, engine)
        self._compactor = Compactor(
            schema, files, engine, lookup, self._clock, self._local_directory
        )
        self._memtable = Memtable(schema)

    def _write_memory(self) -> None:
        """Write the rows in memory to level 0, and their changelog if the producer is input."""
        if not self._memtable.rows:
            return
        with_input = self._options.changelog_producer == "input"
        frozen = self._memtable.freeze(
            self._next_sequence, ordered=self._engine.needs_order or with_input
        )
        work, files, count = self._increment, self._files, self._memtable.rows
        runs = frozen.runs(self._engine)
        is_first = not self.levels.files
        merged = [run.merged(self._engine, nothing_before=is_first) for run in runs]
        new = [file for rows in merged for file in work.write(files, rows)]
        changelog = work.write(files, frozen.every(), "changelog") if with_input else ()
        work.new_files.extend(new)
        work.changelog_files.extend(changelog)
        self.levels = self.levels.apply((), new)
        self._next_sequence += count * len(runs)
        written = self._memtable.bytes
        self._memtable = Memtable(self.schema)
        self._show()
        del frozen, runs, merged
        release_freed_memory(written, self._options.write_buffer_size // 2)

    def _show(self) -> None:
        """Publish what there is now to other threads, all at once."""
        self.uncommitted = Uncommitted(
            self.schema.id,
            self._engine,
            (*self._prepared.new_files, *self._increment.new_files),
            self._memtable,
            self._next_sequence,
        )

    def _run(self, unit: CompactionUnit | None) -> None:
        if unit is None:
            return
        result = self._compactor.run(unit, self.levels)
        self._increment.absorb(result)
        self.levels = self.levels.apply(result.before, result.after, result.marked)
