"""The whole service in this process: the same owners and coordinator, called directly."""

import logging
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pkray.clock import now_millis
from pkray.errors import PkrayError, ServiceUnavailableError, StorageError
from pkray.schema.table_schema import TableSchema
from pkray.service.call_limits import DEFAULT_LIMITS, CallLimits
from pkray.service.calls import CoordinatorClient, OwnerClient
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.push_session import SpoolTarget
from pkray.service.client.pusher import PushTarget
from pkray.service.client.table_service import TableService
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.dedicated_compaction import spread_over_threads
from pkray.service.first_look import FirstLook
from pkray.service.handles.handle import Handle
from pkray.service.handles.local_handle import LocalHandle
from pkray.service.leases import beat_seconds
from pkray.service.owner.owner import BucketOwner
from pkray.service.owner_settings import LEASE_MILLIS, OwnerSettings
from pkray.service.protocol import SessionId
from pkray.service.runtime import checked_directory, checked_lease, checked_owners, default_owners
from pkray.service.timing.debounced_timer import DebouncedTimer
from pkray.storage.location import TableLocation
from pkray.storage.owned_directory import OwnedDirectory, default_local_directory

_log = logging.getLogger(__name__)

_RENEWAL_SECONDS = 3600.0
"""Well below the day that cleaners of orphan files wait for."""


class LocalRuntime:
    """Owners as objects of this process, each with a thread of its own.

    Args:
        owners: owners a table; default one a bucket, at most one a processor.
        local_directory: where spooled rows and lookup caches go, each process's apart; what
            killed processes left there is removed. Default: below the system's temporary
            directory.
        writer_lease: seconds for which `latest` lookups see rows of a writer that was neither
            closed nor is there any more. Default 30.
        call_timeout: seconds that a call may take without progress. Default 60.
        lookup_timeout: seconds that a lookup may take without progress. Default 10.

    Raises:
        OptionError: an argument that is none of these.
        StorageError: the local directory cannot be made.
    """

    def __init__(
        self,
        owners: int | None = None,
        local_directory: str | os.PathLike[str] | None = None,
        writer_lease: float = LEASE_MILLIS / 1000,
        call_timeout: float = DEFAULT_LIMITS.call_seconds,
        lookup_timeout: float = DEFAULT_LIMITS.lookup_seconds,
    ) -> None:
        self._limits = CallLimits.checked(call_timeout, lookup_timeout)
        self._owners = checked_owners(owners)
        self._lease_millis = checked_lease(writer_lease)
        base = checked_directory(local_directory) or default_local_directory()
        try:
            held = OwnedDirectory(f"{base}/embedded")
        except OSError as error:
            raise StorageError(
                f"cannot make a folder in local_directory {base!r}: {error.strerror}; name another",
                path=base,
            ) from error
        self._directory = str(held.path)
        self._services: dict[str, TableService] = {}
        self._starting = threading.Lock()
        self._renewal = DebouncedTimer()
        self._closer = weakref.finalize(self, held.close)

    def service(self, location: TableLocation, schema: TableSchema) -> TableService:
        """Find the table's service, started where it is not running."""
        found = self._services.get(location.fingerprint)
        if found is not None:
            return found
        starter = LocalHandle(self, f"the service of table {location.name}", self._limits)
        return starter.run(self.find_or_start, location, schema)

    def find_or_start(self, location: TableLocation, schema: TableSchema) -> TableService:
        """Take as long as the storage does; see `service`."""
        with self._starting:  # two services of one table would be rivals
            if location.fingerprint not in self._services:
                self._services[location.fingerprint] = self._start(location, schema)
                if len(self._services) == 1:
                    self._renew_later()
            return self._services[location.fingerprint]

    def stop(self, location: TableLocation) -> None:
        """Stop the table's service."""
        service = self._services.pop(location.fingerprint, None)
        if service is not None:
            _stop(service)

    def spread(
        self, work: Callable[[Any], Any], arguments: Sequence[Any], parallelism: int | None
    ) -> Iterator[tuple[int, Any]]:
        return spread_over_threads(work, arguments, parallelism, self._limits)

    def close(self) -> None:
        """Commit the compactions that run, and end."""
        for service in list(self._services.values()):  # one given up may be starting still
            try:
                service.coordinator.commit_finished(True)
            except PkrayError as error:
                _log.warning("compactions are left to the next writer: %s", error)
            try:
                _stop(service)
            except ServiceUnavailableError as error:
                _log.warning("a service does not stop, and is left running: %s", error)
        self._services.clear()
        self._renewal.close()
        self._closer()

    def _renew_files(self) -> None:
        """Keep rows of writers that wait safe: nobody pushes again what this process loses."""
        self._renew_later()
        for service in list(self._services.values()):
            for owner in service.owners:
                try:
                    owner.renew_files()
                except PkrayError as error:
                    _log.warning("%s; files of open writers are renewed in an hour", error)

    def _renew_later(self) -> None:
        runtime = weakref.ref(self)

        def renew() -> None:
            found = runtime()
            if found is not None:
                found._renew_files()

        self._renewal.set(_RENEWAL_SECONDS, renew)

    def _start(self, location: TableLocation, schema: TableSchema) -> TableService:
        look = FirstLook.at(location)
        count = self._owners or default_owners(schema, os.cpu_count() or 1)
        directory = f"{self._directory}/{location.fingerprint}-{uuid.uuid4().hex[:8]}"

        def handle(target: object, what: str) -> LocalHandle:
            return LocalHandle(target, f"{what} of table {location.name}", self._limits)

        def owner(index: int) -> BucketOwner:
            folder, lease = f"{directory}/owner-{index}", self._lease_millis
            settings = OwnerSettings(index, count, folder, lease_millis=lease)
            return BucketOwner(location, settings, now_millis, look=look)

        owners = [OwnerClient(handle(owner(i), f"owner {i}")) for i in range(count)]
        coordinator = Coordinator.of_table(location, owners)

        def push_target(session: SessionId, schema: TableSchema) -> PushTarget:
            spool = f"{directory}/spool/{session.generation}-{session.epoch}"
            return SpoolTarget(spool, schema, count, session)

        writers = OpenWriters(beat_seconds(self._lease_millis))
        client = CoordinatorClient(handle(coordinator, "the coordinator"))
        return TableService(client, owners, push_target, writers=writers, table=location.name)


def _stop(service: TableService) -> None:
    service.writers.stop()
    service.coordinator.close()
    for owner in service.owners:
        owner.close()
        _close(owner.handle)
    _close(service.coordinator.handle)


def _close(handle: Handle) -> None:
    if isinstance(handle, LocalHandle):
        handle.close()
