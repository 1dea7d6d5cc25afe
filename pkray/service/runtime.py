"""Run the owners of a table, wherever they live."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from pkray.arguments.whole_number import checked_number, whole_number
from pkray.errors import OptionError
from pkray.options import DYNAMIC
from pkray.options.values import size
from pkray.schema.table_schema import TableSchema
from pkray.service.client.table_service import TableService
from pkray.storage.location import TableLocation


class Runtime(Protocol):
    """Starts and finds the services of tables."""

    def service(self, location: TableLocation, schema: TableSchema) -> TableService:
        """Find the table's service, started where it is not running."""

    def stop(self, location: TableLocation) -> None:
        """Stop the table's service; uncommitted rows are dropped."""

    def spread(
        self, work: Callable[[Any], Any], arguments: Sequence[Any], parallelism: int | None
    ) -> Iterator[tuple[int, Any]]:
        """Do work many times side by side, where nothing of the services has a part in it.

        Args:
            parallelism: at a time; default as many as there are processors.

        Yields:
            Positions of the arguments with what came of them, an error perhaps, as they end.
        """

    def close(self) -> None:
        """Let go of what this process holds."""


def default_owners(schema: TableSchema, processors: int) -> int:
    """Choose one owner a bucket, but no more than there are processors."""
    many = schema.partition_keys or schema.core.bucket == DYNAMIC
    wanted = processors if many else schema.core.bucket
    return max(1, min(wanted, processors))


def checked_owners(owners: object, name: str = "owners") -> int | None:
    """Check what a user gave as the number of owners a table, or of workers a pool.

    Raises:
        OptionError: it is no whole number of at least 1, nor None.
    """
    return None if owners is None else whole_number(name, owners, 1)


_MEMORY = size("64 mb")


def checked_memory(given: object) -> int | None:
    """Check what a user gave as the memory of a worker, as ``2 gb`` or in bytes.

    Raises:
        OptionError: it is no size of at least 64 MB, nor None.
    """
    if given is None:
        return None
    with suppress(ValueError):
        if isinstance(given, str | int) and not isinstance(given, bool):
            return int(_MEMORY.parse(str(given)))
    raise OptionError(
        f"worker_memory cannot be {given!r}: give {_MEMORY.allowed}",
        key="worker_memory",
        value=given,
    )


def checked_directory(directory: object) -> str | None:
    """Check what a user gave as the folder of caches and spooled rows.

    Raises:
        OptionError: it is no path, nor None.
    """
    if directory is None or isinstance(directory, str | os.PathLike):
        return None if directory is None else os.fspath(directory)
    raise OptionError(
        f"local_directory cannot be {directory!r}: give the path of a folder",
        key="local_directory",
        value=directory,
    )


def checked_lease(seconds: object) -> int:
    """Check what a user gave as the time that rows of silent writers are held, in milliseconds.

    Raises:
        OptionError: it is no number of seconds of at least 2, as writers renew it every second.
    """
    return int(checked_number("writer_lease", seconds, 2) * 1000)
