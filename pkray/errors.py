"""Every error pkray raises on purpose.

::

    PkrayError
    ├── OptionError                     an option's key or value
    ├── SchemaError                     a table's definition, or data that does not fit it
    │   ├── InputError                  rows refused before anything was written
    │   │   └── ChangeRecordError       an event that cannot be read: its place and the reason
    │   ├── SchemaChangedError          the table has changed: load it again
    │   └── PartitionBucketsError       rescale the partition: it has other buckets than the table
    ├── TableError
    │   ├── DatabaseExistsError
    │   ├── DatabaseNotFoundError
    │   ├── TableExistsError
    │   ├── TableNotFoundError
    │   ├── TableReplacedError          dropped and created anew: load it again
    │   ├── TagExistsError
    │   ├── TagNotFoundError
    │   ├── BranchExistsError
    │   └── BranchNotFoundError
    ├── CommitError
    │   ├── CommitConflictError         another commit removed what this one builds on
    │   │   └── CommitBaseMovedError    rows were added to its buckets: prepare it again
    │   ├── CommitFencedError           a newer writer of the same commit user took over
    │   ├── CommitUnknownError          the answer was lost: commit again with the same identifier
    │   └── WriterClosedError           open another writer
    ├── StorageError
    │   ├── MissingFileError
    │   ├── CorruptFileError
    │   ├── StorageFullError
    │   └── SnapshotNotFoundError       expired, or never made
    ├── ServiceError
    │   ├── ServiceUnavailableError
    │   ├── ServiceVersionError         versions too far apart: one has to be upgraded
    │   ├── BackPressureError
    │   └── LostBatchesError            an owner restarted: push the named batches again
    ├── MergeError                      rows the table's merge engine refuses
    ├── QueryError                      a query that cannot be understood: line, column and remedy
    │   └── ColumnNotFoundError         also an AttributeError
    ├── PlanError                       a compiled plan that cannot be loaded
    ├── QueryExistsError                a continuous query of this name, with another plan
    ├── QueryNotFoundError
    ├── QueryFailedError                a continuous query that stopped on an error
    ├── QueryFencedError                another run of the query took over, or it was begun anew
    ├── QueryDivergedError              what it wrote down, its result and its sources disagree
    ├── SharedResultError               others have written to the table that is to be a result
    ├── UpgradeError
    │   └── UpgradeRefusedError
    ├── BackupError                     a backup that cannot be made, proved or restored
    │   ├── BackupExistsError
    │   ├── BackupNotFoundError
    │   └── BackupInUseError            another process changes the store of backups
    ├── EvaluationError                 a row that a query cannot compute: overflow, a bad cast
    ├── QueryCancelledError             a bounded run that its Cancellation ended
    ├── UnsupportedError
    └── MissingExtraError               also an ImportError: install the extra that it names

Each prints its message and carries the values it names as attributes; each survives pickling.
``arguments`` of some are the words of the message that name the caller's arguments.
"""

from typing import Any


class PkrayError(Exception):
    """Base of all pkray errors.

    Args:
        message: what is wrong, with which value, and what to do.
        values: the things the message names; they become attributes.
    """

    def __init__(self, message: str, **values: Any) -> None:
        super().__init__(message)
        self.message = message
        self.values = values

    def __str__(self) -> str:
        line, column = self.values.get("line"), self.values.get("column")
        if isinstance(line, int) and isinstance(column, int):
            return f"{self.message} (line {line}, column {column})"
        return str(self.message)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.values)


def _rebuild(kind: type[PkrayError], message: str, values: dict[str, Any]) -> PkrayError:
    return kind(message, **values)


class OptionError(PkrayError):
    """An unknown option key, or a value the option does not take."""


class SchemaError(PkrayError):
    """A table definition that cannot be, or does not fit what is there."""


class InputError(SchemaError):
    """Rows that do not fit the table: nothing of them was written."""


class ChangeRecordError(InputError):
    """An event of a stream of changes that cannot be read; names its place and the reason."""


class ChangeSourceError(PkrayError):
    """A database or a broker whose changes are read fails, or has lost what is to be read next."""


class ChangeSinkError(PkrayError):
    """A broker to which changes are written fails, or does not say what was written before."""


class SchemaChangedError(SchemaError):
    """The table's definition has changed since it was loaded, in a way that matters here."""


class PartitionBucketsError(SchemaError):
    """A partition's rows are spread over another number of buckets than the table has now."""


class TableError(PkrayError):
    """The name or existence of a database, a table, a tag or a branch."""


class DatabaseExistsError(TableError):
    """The database to create is there already."""


class DatabaseNotFoundError(TableError):
    """No database of this name."""


class TableExistsError(TableError):
    """The table to create is there already."""


class TableNotFoundError(TableError):
    """No table of this name."""


class TableInUseError(TableError):
    """A table that a continuous query reads or writes."""


class TableReplacedError(TableError):
    """The table was dropped, and another one created in its place: load it again."""


class TagExistsError(TableError):
    """The tag to create is there already."""


class TagNotFoundError(TableError):
    """No tag of this name."""


class BranchExistsError(TableError):
    """The branch to create is there already."""


class BranchNotFoundError(TableError):
    """No branch of this name."""


class CommitError(PkrayError):
    """A commit did not happen."""


class CommitConflictError(CommitError):
    """Another commit removed or overlaps what this one builds on."""


class CommitBaseMovedError(CommitConflictError):
    """Rows were added to its buckets since it was prepared: prepare it again on the newest."""


class CommitFencedError(CommitError):
    """A newer writer of the same commit user has taken over."""


class CommitUnknownError(CommitError):
    """Whether the commit happened is not known: repeat it with the same identifier."""


class WriterClosedError(CommitError):
    """The writer was closed before: nothing was written."""


class StorageError(PkrayError):
    """Reading or writing files failed."""


class MissingFileError(StorageError):
    """A file that should be there is not."""


class CorruptFileError(StorageError):
    """A file's bytes are not what its format says."""


class StorageFullError(StorageError):
    """No space left where the file was to go."""


class SnapshotNotFoundError(StorageError):
    """The snapshot has expired or was never made."""


class ServiceError(PkrayError):
    """The running service could not do what was asked."""


class ServiceUnavailableError(ServiceError):
    """An owner or the coordinator does not answer."""


class ServiceVersionError(ServiceError):
    """This process and the service are of versions that do not understand each other."""


class ServiceMovedError(ServiceError):
    """The table is served by other processes: it has to be loaded again."""


class NodeNotFoundError(ServiceError):
    """No node of the cluster, or more than one, has this name."""


class ServiceStartError(ServiceError):
    """Some tables or queries cannot be started."""


class BackPressureError(ServiceError):
    """The owner is full: wait and push again."""


class LostBatchesError(ServiceError):
    """An owner restarted and no longer holds these uncommitted batches."""


class MergeError(PkrayError):
    """The table's merge engine refuses these rows."""


class QueryError(PkrayError):
    """A query that cannot be understood; ``line`` and ``column`` (from 1) say where, if known."""


class ColumnNotFoundError(QueryError, AttributeError):
    """No column of this name, as an attribute of a relation or otherwise."""


class PlanError(PkrayError):
    """A compiled plan that cannot be loaded; ``faults`` are (JSON pointer, what is wrong) pairs."""


class QueryExistsError(PkrayError):
    """A continuous query of this name is there, with another plan."""


class QueryNotFoundError(PkrayError):
    """There is no continuous query of this name."""


class QueryFailedError(PkrayError):
    """A continuous query has stopped on an error, which is its cause."""


class QueryFencedError(PkrayError):
    """Another run of a continuous query took over."""


class QueryDivergedError(PkrayError):
    """Raised where a query's log, its result and its sources do not belong together."""


class SharedResultError(PkrayError):
    """Others than a continuous query have written to the table that is to hold its result."""


class UpgradeError(PkrayError):
    """An upgrade of a query is there already, or is not there, or is not far enough."""


class UpgradeRefusedError(UpgradeError):
    """A plan cannot take over a query; ``field`` says which part of it differs."""


class BackupError(PkrayError):
    """A backup cannot be made, proved or restored as asked."""


class BackupExistsError(BackupError):
    """There is a backup of this name."""


class BackupNotFoundError(BackupError):
    """There is no backup of this name."""


class BackupInUseError(BackupError):
    """Another process changes the store of backups."""


class EvaluationError(PkrayError):
    """A row that a query cannot compute: an overflow, a value that does not fit a cast."""


class QueryCancelledError(PkrayError):
    """A bounded run was cancelled while it ran."""


class UnsupportedError(PkrayError):
    """A valid thing that pkray does not do."""


class MissingExtraError(PkrayError, ImportError):
    """A package is not installed that this part of pkray needs."""
