"""A relation's changes as an iterator, computed as they are asked for."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from pkray.clock import now_millis
from pkray.closing import Closeable
from pkray.errors import QueryError
from pkray.options.values import duration_millis
from pkray.relational.bound_query import BoundQuery, session_of
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.feeds.streams import in_query, start_feeders, streams_in
from pkray.relational.continuous.log.log import NoLog
from pkray.relational.continuous.operators.catalogue import check_operators
from pkray.relational.continuous.outlets.outlets import (
    EPOCH,
    Encoding,
    Function,
    FunctionOutlet,
    Messages,
    QueueOutlet,
    check_encoding,
)
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.queries.definitions.options import IDLE_TIMEOUT, QueryOptions
from pkray.relational.continuous.queries.definitions.query_store import FOLDER
from pkray.relational.continuous.queries.opening import open_run
from pkray.relational.continuous.queries.query import Query, start_function
from pkray.relational.continuous.queries.starting import define
from pkray.relational.continuous.run import Run, RunnablePlan, RunSettings
from pkray.relational.continuous.state.states import States
from pkray.relational.optimizer import optimize
from pkray.relational.plan.json.writer import to_json
from pkray.relational.plan.nodes import Node
from pkray.relational.plan.physical import check_kept, tells_twice, to_physical
from pkray.relational.plan.state import ttl_of
from pkray.relational.plan.total_rows import with_total_rows
from pkray.relational.sources.streamed import Feeding, StreamedSource
from pkray.relational.spark_engine import spark_engine
from pkray.service.ray.datasets import dataset_of
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from pkray.storage.owned_directory import OwnedDirectory, default_local_directory
from pkray.storage.spool import Feeder, FeederState, Spool
from pkray.table.databases import remove_folders
from pkray.version import __version__

Follow: TypeAlias = Literal["changes", "available_now"]
POLL_SECONDS = 0.05
"""Between two looks at sources that had nothing new, or whether epochs were read."""
_AHEAD = 8
"""Epochs that wait to be read: enough that neither side waits for the other, few enough that what
lies in between stays small."""


class Pump:
    """Takes epochs and writes each into a batch of a spool, once: its writer is its number.

    Args:
        poll: gives the next epoch; None where there is none now.
        has_ended: whether none comes any more.
        runs_ahead: whether it does not wait until what it wrote is read.
    """

    def __init__(
        self,
        spool: Spool,
        poll: Callable[[], pa.RecordBatch | None],
        has_ended: Callable[[], bool],
        *,
        runs_ahead: bool = False,
    ) -> None:
        self._spool = spool
        self._poll = poll
        self._has_ended = has_ended
        self._runs_ahead = runs_ahead
        self._name = uuid.uuid4().hex
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        newest = spool.batch(spool.count() - 1)
        self._last = -1 if newest is None else int(newest.writer)
        self._say("running")

    def start(self) -> None:
        """Go on in a thread until it is stopped, fails, or none comes any more."""
        self._thread = threading.Thread(target=self._work, name="pkray-epochs", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        with contextlib.suppress(Exception):  # the reader is told
            self.run()

    def run(self) -> None:
        """Go on until it is stopped, fails, or none comes any more; the spool says which."""
        try:
            for epoch in self._epochs():
                self._write(epoch)
        except Exception as error:
            self._say("failed", str(error))
            raise
        self._say("stopped" if self._stopping.is_set() else "ended")

    def stop(self) -> None:
        """End it after the epoch that is computed."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _epochs(self) -> Iterator[pa.RecordBatch]:
        while not self._stopping.is_set():
            epoch = None if self._is_full() else self._poll()
            if epoch is not None:
                yield epoch
            elif self._has_ended():
                return
            else:
                self._stopping.wait(POLL_SECONDS)

    def _is_full(self) -> bool:
        return not self._runs_ahead and self._spool.count() - self._spool.first() > _AHEAD

    def _write(self, epoch: pa.RecordBatch) -> None:
        number = int(epoch.column(EPOCH)[0].as_py())
        if number <= self._last:
            return  # it comes again after a crash
        place = self._spool.count()
        file = self._spool.write_file(place, epoch.schema, [epoch])
        self._spool.add(place, [file] if file else [], str(number))
        self._last = number

    def _say(self, state: FeederState, message: str | None = None) -> None:
        self._spool.say(Feeder(self._name, state, message=message))


class ResultStream(Closeable, Iterator[pa.RecordBatch]):
    """The changes of a query: batches of ``_row_kind``, ``_epoch`` and the columns.

    What the sources hold comes first, as +I. An epoch is computed when the batches of those before
    have been taken. It ends when no source changes any more; with ``available_now`` at what there
    is now. Where it has a name, epochs since the last checkpoint come again after a crash.

    Args:
        outlet: of the run's one root.
        name: None: it forgets its state when it is closed.
        place: for files that are its own, beside the state.
    """

    def __init__(
        self, run: Run, outlet: QueueOutlet, trigger: Follow, name: str | None, place: Place
    ) -> None:
        self.schema = outlet.schema
        self.name = name
        self._run = run
        self._outlet = outlet
        self._ends = trigger == "available_now"
        self._is_closed = False
        self._place = place
        self._pump: Pump | None = None
        self._feeders = start_feeders(run.plan.roots, self._feeding)

    def __repr__(self) -> str:
        return f"ResultStream(epoch {self._run.next_epoch - 1})"

    def __next__(self) -> pa.RecordBatch:
        while True:
            batch = self.poll()
            if batch is not None:
                return batch
            if self._has_ended():
                raise StopIteration
            time.sleep(POLL_SECONDS)

    def poll(self) -> pa.RecordBatch | None:
        """Give the next batch, if there is one now; None where the sources have nothing new.

        Raises:
            QueryError: its epochs go to Spark.
        """
        if self._pump is not None:
            raise QueryError("the epochs of this stream go to Spark: open another stream")
        return self._poll()

    def to_ray(self) -> Iterator[Any]:
        """Give each epoch that comes as a Ray Dataset: ``_row_kind``, ``_epoch``, the columns.

        Raises:
            MissingExtraError: Ray Data is not installed.
        """
        return map(dataset_of, self)

    def to_spark(self, spark: Any = None) -> Any:
        """Give the epochs as a streaming DataFrame: ``_row_kind``, ``_epoch``, the columns.

        This process goes on computing epochs, a few before Spark has read them, until the stream is
        closed; with ``available_now`` it computes all of them first. Rows of one epoch have one
        ``_epoch``; one micro-batch has several. A stream with a name, opened again, and a Spark
        query with a checkpoint go on where they were: each epoch comes once. Without a name both
        begin anew.

        Args:
            spark: by default the active session.

        Raises:
            QueryError: they go to Spark already.
            UnsupportedError: no session is active, or Spark does not reach the files.
        """
        engine = spark_engine()
        if self._pump is not None:
            raise QueryError("the epochs of this stream go to Spark already: use that DataFrame")
        spool = Spool(self._place.store().child("output"))
        frame = engine.read_epochs(spool, self.schema, spark)
        self._pump = Pump(spool, self._poll, self._has_ended, runs_ahead=self._ends)
        if self._ends:
            self._pump.run()
        else:
            self._pump.start()
        return frame

    def _has_ended(self) -> bool:
        return self._is_closed or self._run.is_ended or (self._ends and not self._is_behind())

    def _poll(self) -> pa.RecordBatch | None:
        while not self._outlet.waiting:
            if self._is_closed:
                return None
            self._run.checkpoint_if_due()  # what was computed so far has been taken
            if not self._run.step():
                return None
        return self._outlet.waiting.popleft()

    def _is_behind(self) -> bool:
        feeds = self._run.feeds
        return feeds.is_filling or feeds.next(self._run.positions) is not None

    def _feeding(self, source: StreamedSource) -> Feeding:
        return Feeding(
            self.name,
            self._ends,
            0.0,
            lambda: not self._is_closed,
            lambda: max(self._run.positions.get(source.name, 0), 0),
        )

    def close(self) -> None:
        """End it; one without a name forgets its state."""
        if not self._is_closed:
            if self._pump is not None:
                self._pump.stop()
            self._is_closed = True
            for feeder in self._feeders:
                feeder.stop()
            if not self._outlet.waiting:
                self._run.checkpoint()
            self._run.close()
            self._place.forget()


def open_stream(
    relation: BoundQuery,
    encoding: Encoding,
    trigger: Follow,
    name: str | None,
    clock: Callable[[], int] | None,
) -> ResultStream:
    """Follow a relation; as of ``Relation.stream``."""
    root = _physical(relation, encoding)
    outlet = QueueOutlet(Messages(root, encoding))
    settings = RunSettings(
        clock=clock or now_millis,
        idle_timeout=duration_millis(_options(relation).get(IDLE_TIMEOUT, "0 ms")),
        aligns=trigger != "available_now",
    )
    if name is None:
        check_operators(root, str(relation.dialect))
        place = _Unkept(relation)
        roots = in_query((root,), place.store()) if streams_in((root,)) else (root,)
        plan = RunnablePlan(roots, (encoding != "upsert",), _ttl(relation))
        run = Run(plan, [outlet], NoLog(), States(), settings)
        return ResultStream(run, outlet, trigger, None, place)
    defined = _definition(relation, name, root, encoding)
    query, _ = define(_catalog(relation, name), defined, (root,))
    settings = replace(settings, reader=query.definition.reader)
    run = open_run(query, lambda *_: [outlet], settings)
    return ResultStream(run, outlet, trigger, name, Place(query.folder))


class Place:
    """Keeps the files of a stream that are its own: in the folder of its query.

    Args:
        folder: None: it is found when it is asked for.
    """

    def __init__(self, folder: ObjectStore | None) -> None:
        self._store = folder

    def store(self) -> ObjectStore:
        """Give the folder."""
        if self._store is None:
            self._store = self._made()
        return self._store

    def _made(self) -> ObjectStore:
        raise NotImplementedError

    def forget(self) -> None:
        """End the use of it."""


class _Unkept(Place):
    """A folder that is made when it is asked for, and deleted at the end.

    It lies in the warehouse, where processes of other machines reach it; without one on the disk.
    """

    def __init__(self, relation: BoundQuery) -> None:
        super().__init__(None)
        self._relation = relation
        self._disk: OwnedDirectory | None = None

    def _made(self) -> ObjectStore:
        session = session_of(self._relation)
        if session is not None:
            return session.catalog.store.child(f"{FOLDER}/.stream-{uuid.uuid4().hex}")
        self._disk = OwnedDirectory(f"{default_local_directory()}/streams")
        return open_store(self._disk.path)

    def forget(self) -> None:
        if self._disk is not None:
            self._disk.close()
        elif self._store is not None:
            self._store.delete([each.path for each in self._store.list(hidden=True)])
            remove_folders(self._store)


def for_each_batch(
    relation: BoundQuery,
    function: Function,
    name: str,
    encoding: Encoding,
    trigger: str,
    clock: Callable[[], int] | None,
) -> Query:
    """Call a function for the changes of each epoch; as of ``Relation.foreach_batch``."""
    root = _physical(relation, encoding)
    outlet = FunctionOutlet(Messages(root, encoding), function)
    definition = _definition(relation, name, root, encoding, trigger)
    return start_function(_catalog(relation, name), definition, (root,), outlet, clock)


def _physical(relation: BoundQuery, encoding: Encoding) -> Node:
    before = encoding != "upsert"
    twice = tells_twice(_options(relation))
    plan = with_total_rows(optimize(relation.plan), relation.dialect)
    check_kept(plan)
    root = to_physical(plan, before=before, by_key=not before, duplicates=twice)
    check_encoding(root, encoding)
    return root


def _definition(
    relation: BoundQuery, name: str, root: Node, encoding: Encoding, trigger: str = "changes"
) -> Definition:
    before = (encoding != "upsert",)
    dialect = str(relation.dialect)
    options = QueryOptions(trigger).bounded_by(_options(relation))
    options.trigger_of()
    document = to_json(
        (root,), dialect=dialect, version=__version__, ttl=_ttl(relation), before=before
    )
    kept = options.kept()
    return Definition(name, document, before, (), now_millis(), dialect, kept, sql=relation.text)


def _ttl(relation: BoundQuery) -> str:
    return ttl_of(_options(relation))


def _options(relation: BoundQuery) -> Mapping[str, str]:
    return relation.names.session.options if relation.names.session else {}


def _catalog(relation: BoundQuery, name: str) -> Catalog:
    session = session_of(relation)
    if session is None:
        raise QueryError(
            f"no catalog keeps the query {name}: make the relation by catalog.sql or from a table"
        )
    return session.catalog
