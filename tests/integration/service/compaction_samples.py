"""A table with two services, as of two processes, whose compactions run when they are told to."""

from concurrent.futures import Executor, Future

import numpy as np
import pyarrow as pa

from pkray.metadata.live import live_files
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import KIND, TableSchema
from pkray.service.calls import OwnerClient
from pkray.service.client.routing import Router
from pkray.service.coordinator.committers import Committers
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.handles.local_handle import LocalHandle
from pkray.service.owner.owner import BucketOwner
from pkray.service.owner_settings import OwnerSettings
from pkray.service.protocol import DRIVER, BucketSelection, CommitRequest, Lookup, Push, PushReport
from pkray.storage.location import TableLocation

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string())])


class ManualExecutor(Executor):
    """Holds what is submitted until `run`."""

    def __init__(self):
        self.waiting = []
        self.at_once = False

    def submit(self, work, /, *args, **kwargs):
        future = Future()
        self.waiting.append((future, lambda: work(*args, **kwargs)))
        if self.at_once:
            self.run()
        return future

    def run(self, error=None):
        """Do everything, or let it fail."""
        waiting, self.waiting = self.waiting, []
        for future, work in waiting:
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if error is not None:
                    raise error
                future.set_result(work())
            except BaseException as raised:
                future.set_exception(raised)

    def shutdown(self, wait=True, *, cancel_futures=False):
        for future, _ in self.waiting:
            future.cancel()
        self.waiting.clear()


class Process:
    """One owner and its coordinator, as in a process of its own."""

    def __init__(self, folder, name, clock, **options):
        self.name = name
        self.folder = folder
        self.clock = clock
        self.location = TableLocation(f"{folder}/db.db/t", "db.t")
        self.store = self.location.open()
        schemas = SchemaStore(self.store, "db.t")
        if not schemas.exists():
            settings = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", **options}
            schemas.create(TableSchema.create(COLUMNS, ["id"], [], settings, None, 0))
        self.schema = schemas.latest()
        self.router = Router(self.schema)
        self.owner = OwnerClient(LocalHandle(None, "owner"))
        self.identifier = 0
        self.starts = 0
        self.restart()

    def restart(self):
        """As after a kill."""
        self.starts += 1
        self.executor = ManualExecutor()
        local = f"{self.folder}/local-{self.name}-{self.starts}"
        self.owner.handle.target = BucketOwner(
            self.location, OwnerSettings(0, 1, local), self.clock, self.executor
        )
        self.committers = Committers(self.location, self.clock)
        self.coordinator = Coordinator(
            [self.owner], self.committers, self.clock, sleep=lambda _: None
        )

    def write(self, session, rows, index=0):
        kinds = pa.array([3 if value is None else 0 for value in rows.values()], pa.int8())
        batch = pa.record_batch(
            [pa.array(list(rows), pa.int64()), pa.array(list(rows.values()), pa.string()), kinds],
            names=["id", "v", KIND],
        )
        for routed in self.router.routing(batch).route(batch, 1).values():
            self.owner.push(Push(session, DRIVER, 0, index, self.schema.id), routed)

    def begin(self):
        return self.coordinator.begin(self.name)

    def finish(self, session, batches=1, **wanted):
        self.identifier += 1
        return self.coordinator.commit(
            CommitRequest(
                session=session,
                reports=(PushReport(DRIVER, 0, 0, {0: batches}),),
                **{"name": self.identifier, **wanted},
            )
        )

    def commit(self, rows, **wanted):
        """Upsert in one commit; None deletes."""
        session = self.begin()
        self.write(session, rows)
        return self.finish(session, **wanted)

    def compact(self, full=True):
        self.executor.at_once = True
        try:
            return self.coordinator.compact(BucketSelection(full=full))
        finally:
            self.executor.at_once = False

    def content(self, visibility="committed", keys=range(12)):
        wanted = pa.record_batch({"id": pa.array(keys, pa.int64())})
        positions = self.router.routing(wanted).positions(1)
        found = {}
        for piece, rows in positions[0]:
            part = wanted.take(pa.array(np.asarray(rows)))
            slices = [type(piece)(piece.partition, piece.bucket, 0, len(rows))]
            asked = Lookup(part, slices, visibility, ["id", "v"])
            _, table, _ = self.owner.lookup(asked)
            found.update(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
        return dict(sorted(found.items()))

    def levels(self):
        self.content(keys=[0])
        return [
            run.level for run in self.owner.handle.target._committed.levels((bytes(12), 0)).runs()
        ]

    def stats(self):
        return self.owner.handle.target.stats().compaction

    def stored(self):
        return {s.path.rsplit("/", 1)[1] for s in self.store.list("bucket-0/")}

    def close(self):
        self.owner.close()
        self.owner.handle.close()


def live_names(store):
    """Files that the newest snapshot names."""
    return {entry.file.file_name for entry in live_files(store, SnapshotStore(store).latest())}


def missing_files(store):
    """Those of them that are not there."""
    return live_names(store) - {status.path.rsplit("/", 1)[1] for status in store.list("")}
