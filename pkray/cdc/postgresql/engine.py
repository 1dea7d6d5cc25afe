"""Debezium's engine in this process: batches of events of one connector, one after the other.

Java calls with a batch, in a thread of its own, and waits until it is released; whoever reads the
batches does all the work.
"""

import json
import queue
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.closing import Closeable
from pkray.errors import ChangeSourceError
from pkray.extras import require_extra

_LOGGING = Path(__file__).with_name("log4j2.properties")
_MEMORY = "-Xmx1g"
"""Bounds Java: a connector's queue holds its events, and at most so much of them."""
_SIGNALS = "-Xrs"
"""Leaves SIGINT and SIGTERM to this process: Java would end below Python, which then crashes."""
_TICK = 0.5
"""Seconds after which a thread that waits looks whether the engine was closed."""
_PATIENCE = 60.0
"""Seconds for the engine to end."""


class Batch:
    """Some events, for which the engine waits.

    Args:
        topics: the connector's prefix and the table's name of each event.
        values: JSON of each event; the text null for a tombstone.
        place: JSON, of the connector's place after the last one.
        is_whole: whether no transaction goes on behind the last one.
    """

    def __init__(self, topics: pa.Array, values: pa.Array, place: str, is_whole: bool) -> None:
        self.topics = topics
        self.values = values
        self.place = place
        self.is_whole = is_whole
        self.is_done = False
        self._released = threading.Event()

    def of(self, topic: str) -> pa.Array:
        """Give the values of a topic's events, in their order."""
        return self.values.filter(pc.equal(self.topics, topic))

    @property
    def is_of_snapshot(self) -> bool:
        """Whether rows of the first snapshot follow."""
        place = json.loads(self.place)
        return bool(place.get("snapshot")) and not place.get("last_snapshot_record")

    def release(self, *, is_done: bool) -> None:
        """Let the engine go on.

        Args:
            is_done: whether the source may forget what was before the batch's end.
        """
        self.is_done = is_done
        self._released.set()

    def wait(self, seconds: float) -> bool:
        """Wait until it is released; False: it is not yet."""
        return self._released.wait(seconds)


class Engine(Closeable):
    """Runs a connector.

    Args:
        properties: of Debezium. They are in no file, as passwords are among them.
        place: from which it goes on, as a batch has it; None: from the beginning.

    Raises:
        MissingExtraError: Debezium is not installed.
    """

    def __init__(self, properties: Mapping[str, str], place: str | None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pkray-cdc-"))
        self._properties = dict(properties)
        self._batches: queue.Queue[Batch | str] = queue.Queue(1)
        self._closed = threading.Event()
        self._ended = False
        self._transactions = f"{properties['topic.prefix']}.transaction"
        self._is_in_transaction = False
        try:
            start_java()
            self._engine = self._built(place)
            self._topic, self._value = _reader("destination"), _reader("value")
            self._thread = threading.Thread(target=self._engine.run, daemon=True)
            self._thread.start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def next(self, seconds: float) -> Batch | None:
        """Wait for the next batch, which is to be released; None: nothing came.

        Raises:
            ChangeSourceError: the connector ended, for a reason that the error names.
        """
        try:
            found = self._batches.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(found, str):
            raise ChangeSourceError(f"Debezium ended: {found}", reason=found)
        return found

    def close(self) -> None:
        """End the connector; a batch that was not released counts as not done."""
        if self._ended:
            return
        self._ended = True
        self._closed.set()
        with suppress(Exception):  # it has ended by itself
            self._engine.close()
        self._thread.join(_PATIENCE)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _built(self, place: str | None) -> Any:
        import jpype

        java = jpype.JClass
        kind = java("io.debezium.engine.DebeziumEngine")
        offsets = self._folder / "offsets"
        properties = java("java.util.Properties")()
        settings = {
            **self._properties,
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(offsets),
            "offset.flush.interval.ms": "0",
            "tombstones.on.delete": "false",
        }
        for name, value in settings.items():
            properties.setProperty(name, value)
        if place is not None:
            self._write_place(offsets, place)
        builder = kind.create(java("io.debezium.engine.format.Json")).using(properties)
        builder = builder.notifying(_consumer(self)).using(_callback(self))
        return builder.build()

    def _write_place(self, path: Path, place: str) -> None:
        """Write the file that the engine begins with, as Kafka Connect does."""
        import jpype

        name, prefix = self._properties["name"], self._properties["topic.prefix"]
        key = json.dumps([name, {"server": prefix}], separators=(",", ":"))
        offsets = jpype.JClass("java.util.HashMap")()
        of_bytes = jpype.JArray(jpype.JByte)
        offsets.put(of_bytes(list(key.encode())), of_bytes(list(place.encode())))
        file = jpype.JClass("java.io.FileOutputStream")(str(path))
        stream = jpype.JClass("java.io.ObjectOutputStream")(file)
        stream.writeObject(offsets)
        stream.close()

    def take(self, records: Any, committer: Any) -> None:
        """Take what Java brings, and wait until it is released.

        What belongs to a transaction that goes on is a batch of its own: rows of one statement can
        have one place in the log, and behind it all of them are taken for done.
        """
        topics, values = _lines(records, self._topic), _lines(records, self._value)
        count = len(values)
        cut = self._cut(topics, values)
        self._is_in_transaction = cut < count
        for start, stop in ((0, cut), (cut, count)):
            if start == stop:
                continue
            last, size = records[stop - 1], stop - start
            place = str(_mapper().writeValueAsString(last.sourceRecord().sourceOffset()))
            batch = Batch(topics.slice(start, size), values.slice(start, size), place, stop == cut)
            if not self._hand_over(batch):
                return
            if batch.is_done:
                committer.markProcessed(last)
                committer.markBatchFinished()

    def _cut(self, topics: pa.Array, values: pa.Array) -> int:
        """Count the events before a transaction that goes on behind the last one."""
        told = np.flatnonzero(pc.equal(topics, self._transactions))
        if not len(told):
            return 0 if self._is_in_transaction else len(values)
        event = json.loads(values[told[-1]].as_py())
        begins = event.get("payload", event)["status"] == "BEGIN"
        return int(told[-1]) if begins else len(values)

    def _hand_over(self, batch: Batch) -> bool:
        """Wait until a batch is taken and released; False: the engine was closed before."""
        while not self._closed.is_set():
            try:
                self._batches.put(batch, timeout=_TICK)
                break
            except queue.Full:
                continue
        while not batch.wait(_TICK):
            if self._closed.is_set():
                return False
        return True

    def end(self, message: str) -> None:
        """Take how the connector ended."""
        while not self._closed.is_set():
            try:
                self._batches.put(message, timeout=_TICK)
                return
            except queue.Full:
                continue


def start_java() -> None:
    """Start Java with Debezium in this process, where it does not run yet.

    Raises:
        MissingExtraError: Debezium is not installed.
        ChangeSourceError: there is no Java.
    """
    require_extra("cdc", "pydbzengine", "pkray.cdc.postgres")
    import jpype
    from pydbzengine.engine.jvm import ensure_jvm_started

    if jpype.isJVMStarted():
        return
    quiet = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    try:
        ensure_jvm_started(jvm_opts=[quiet, _MEMORY, _SIGNALS])
    except Exception as error:
        raise ChangeSourceError(
            f"Java, which Debezium needs, does not start: {error}; install 17 or a newer one, and "
            "set JAVA_HOME"
        ) from None


def _mapper() -> Any:
    import jpype

    return jpype.JClass("com.fasterxml.jackson.databind.ObjectMapper")()


def _reader(name: str) -> Any:
    """Make a Java function that reads a property of events, without a call from here for each."""
    import jpype

    java = jpype.JClass
    event = java("io.debezium.engine.ChangeEvent").class_
    found = event.getMethod(name)
    handle = java("java.lang.invoke.MethodHandles").publicLookup().unreflect(found)
    function = java("java.util.function.Function").class_
    return java("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(function, handle)


def _lines(records: Any, reader: Any) -> pa.Array:
    """Read a property of all events at once; JSON and names of topics have no line ends."""
    import jpype

    joining = jpype.JClass("java.util.stream.Collectors").joining("\n")
    return pa.array(
        str(records.stream().map(reader).collect(joining)).split("\n"), pa.large_string()
    )


def _consumer(engine: Engine) -> Any:
    import jpype

    @jpype.JImplements("io.debezium.engine.DebeziumEngine$ChangeConsumer")
    class Consumer:
        @jpype.JOverride  # type: ignore[untyped-decorator]
        def handleBatch(self, records: Any, committer: Any) -> None:  # noqa: N802 # Java's name
            engine.take(records, committer)

        @jpype.JOverride  # type: ignore[untyped-decorator]
        def supportsTombstoneEvents(self) -> bool:  # noqa: N802 # Java's name
            return False

    return Consumer()


def _callback(engine: Engine) -> Any:
    import jpype

    @jpype.JImplements("io.debezium.engine.DebeziumEngine$CompletionCallback")
    class Callback:
        @jpype.JOverride  # type: ignore[untyped-decorator]
        def handle(self, success: Any, message: Any, error: Any) -> None:
            cause = error
            while cause is not None and cause.getCause() is not None:
                cause = cause.getCause()
            detail = "" if cause is None else f" ({cause.getMessage()})"
            engine.end(f"{message}{detail}")

    return Callback()
