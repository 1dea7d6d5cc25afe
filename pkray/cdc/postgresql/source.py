"""A table of a PostgreSQL, kept as a table here: first its rows, then its changes."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.bad_records import BadRecords
from pkray.cdc.decoder import BadRecord, ChangeFormat, NewColumnsPolicy, Records
from pkray.cdc.places import as_properties, newest_place
from pkray.cdc.postgresql.engine import Batch, Engine
from pkray.cdc.postgresql.server_identity import ServerIdentity, lsn_text
from pkray.cdc.postgresql.session import Server, Session
from pkray.cdc.readings import Handling
from pkray.cdc.row_changes import ROW_KIND
from pkray.cdc.upserts import Upsert
from pkray.errors import ChangeSourceError, InputError
from pkray.rows.input import Missing
from pkray.service.client.writer import TableWriter
from pkray.storage.secrets import Secret
from pkray.table.table import Table

PLACE = "pkray.cdc.postgres.place"
"""The property of a snapshot that says up to where the source's changes are in the table."""
_SOURCE = "pkray.cdc.postgres.source"
_SYSTEM = "pkray.cdc.postgres.system"
"""The properties that say which source it is, and which server's log."""
_PREFIX = "pkray"
_TICK = 1.0
"""Seconds for which a batch is awaited before the source is asked or stopped."""
_SILENCE = 600.0
"""Seconds for which a source that is asked for a mark may say nothing."""
_NAME = re.compile(r"[^\s.,\"\\]+\.[^\s.,\"\\]+")
_log = logging.getLogger(__name__)


def postgres(
    table: Table,
    source: str,
    *,
    database: str,
    host: str = "localhost",
    port: int = 5432,
    user: str | None = None,
    password: str | None = None,
    password_file: str | PathLike[str] | None = None,
    slot: str | None = None,
    metadata: Mapping[str, str] | None = None,
    new_columns: NewColumnsPolicy = "refuse",
    missing: Missing = "error",
    errors: Table | None = None,
    heartbeat: float = 60.0,
    warn_bytes: int = 1 << 30,
    properties: Mapping[str, str] | None = None,
) -> PostgresSource:
    """Name a table of a PostgreSQL that a table here is to be like.

    Args:
        source: ``schema.table``, with a primary key. The server has ``wal_level = logical``, is 14
            or newer, and lets the user replicate and make a publication.
        user: default: PGUSER.
        password: default: that of the file, or PGPASSWORD. It is kept from messages and files.
        password_file: a file whose first line is the password.
        slot: the replication slot, and its publication, made when they are not there; default: by
            the table's name. It names the place in the log too: keep it.
        metadata, new_columns, missing: as `pkray.cdc.upsert` takes them.
        errors: a table that takes bad records, as of `pkray.cdc.upsert`, and default: the first one
            ends following. Their place is the position in the source's log; of a row of the first
            snapshot, a digest of it.
        heartbeat: seconds after which the place is committed though the table did not change, so
            that the server need not keep its log.
        warn_bytes: of log that the server keeps for the slot, from which on a warning says so.
        properties: further ones of Debezium's connector.

    Raises:
        InputError: an argument says nothing that can be.
    """
    if not _NAME.fullmatch(source):
        raise InputError(f"source {source!r} is no table: write schema.table, as public.people")
    own = slot or re.sub("[^a-z0-9_]", "_", f"pkray_{table.name}".lower())[:63]
    if not re.fullmatch("[a-z0-9_]{1,63}", own):
        raise InputError(f"slot {own!r} is no name of a slot: use a-z, 0-9 and _, 63 at most")
    if password is None and password_file is not None:
        try:
            password = Path(password_file).read_text().split("\n", 1)[0]
        except OSError as error:
            raise InputError(f"the password's file cannot be read: {error}") from None
    who = user or os.environ.get("PGUSER")
    secret = os.environ.get("PGPASSWORD", "") if password is None else password
    if not who:
        raise InputError("no user is named: give user, or set PGUSER")
    server = Server(host, port, database, who, Secret(secret))
    load = Upsert(
        table,
        ChangeFormat.debezium_json,
        metadata,
        Handling("string", "isostring"),
        new_columns,
        missing,
        f"pkray.cdc.postgres.{own}",
        errors=errors,
    )
    return PostgresSource(load, server, source, own, heartbeat, warn_bytes, dict(properties or {}))


@dataclass(repr=False)
class PostgresSource:
    """Brings the changes of a table in a PostgreSQL.

    Each commit has the place in the source's log, so that rows and place move together: what is
    killed goes on behind what it committed last. The first rows come in one commit, and so does
    each transaction of the source, perhaps with others.

    Attributes:
        rows: changes that the last run wrote.
        bad: records that it left out.
    """

    load: Upsert
    server: Server
    source: str
    slot: str
    heartbeat: float
    warn_bytes: int
    properties: Mapping[str, str]
    rows: int = 0
    bad: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    def __repr__(self) -> str:
        return f"PostgresSource({self.load.table.name!r}, {self.described!r})"

    def stop(self) -> None:
        """Have `run` end, from any thread; what it has committed stays."""
        self._stopped.set()

    def run(self, *, once: bool = False) -> int:
        """Bring rows and changes until `stop`.

        Args:
            once: end as soon as the table is as the source was when this began.

        Returns:
            How many changes were written.

        Raises:
            ChangeSourceError: the server cannot be reached, has no such table, is another one than
                it was, or has forgotten changes that the table has not.
            ChangeRecordError, InputError: a change that does not fit the table.
        """
        self._stopped.clear()
        self.rows = self.bad = 0
        with Session(self.server, self.slot) as session:
            identity = session.identity()
            begins = True
            while begins:
                place = self._place(session, identity)
                with Engine(self._settings(), place) as engine:
                    run = _Run(self, session, engine, once, identity, place)
                    begins = run.go(self._stopped)
        return self.rows

    def _settings(self) -> dict[str, str]:
        adds = self.load.new_columns == "add"
        return {
            "max.batch.size": "8192",
            "max.queue.size": "16384",
            "poll.interval.ms": "200",
            "errors.max.retries": "5",
            # Who follows already is fenced with its next commit, and lets go of the slot.
            "slot.max.retries": "90",
            "slot.retry.delay.ms": "1000",
            **self.properties,
            **self.server.properties,
            "name": _PREFIX,
            "topic.prefix": _PREFIX,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "slot.name": self.slot,
            "publication.name": self.slot,
            "publication.autocreate.mode": "filtered",
            "table.include.list": self.source.replace("$", r"\$"),
            "snapshot.mode": "initial",
            "heartbeat.interval.ms": str(max(1, int(min(self.heartbeat, 10.0) * 1000))),
            # Text says all of a value; a schema says the types of new columns, and costs more.
            "lsn.flush.mode": "connector",  # no place is confirmed before its commit
            "provide.transaction.metadata": "true",  # tells where a place may be committed
            "converter.schemas.enable": "true" if adds else "false",
            "decimal.handling.mode": "precise" if adds else "string",
            "time.precision.mode": "adaptive" if adds else "isostring",
            "binary.handling.mode": "base64",
        }

    @property
    def described(self) -> str:
        """Name the source, as commits do."""
        return f"{self.source} of {self.server}, slot {self.slot}"

    def _place(self, session: Session, identity: ServerIdentity) -> str | None:
        """Find the place that the table has reached.

        Raises:
            ChangeSourceError: it cannot be gone on from there.
        """
        name = self.load.table.name
        confirmed = session.confirmed_lsn()  # before the place, which others may move on
        said = newest_place(self.load.table, str(self.load.commit_user), PLACE)
        if said is not None:
            if said[_SOURCE] != self.described:
                raise ChangeSourceError(
                    f"{name} has the changes of {said[_SOURCE]}, not of {self.described}: name "
                    "another slot, and a table of its own"
                )
            if _SYSTEM in said:
                known = ServerIdentity.from_text(said[_SYSTEM])
                self._check_log(session, known, identity, _lsn(said[PLACE]))
            self.check_slot(confirmed, _lsn(said[PLACE]))
            return said[PLACE]
        if self.load.table.latest_snapshot() is not None:
            raise ChangeSourceError(
                f"{name} has rows and no place in the log of {self.described}: rows that are not "
                "in the source would stay. Begin with an empty table"
                + (f", and drop the slot {self.slot!r}" if confirmed is not None else ""),
                table=name,
            )
        return None

    def _check_log(
        self, session: Session, known: ServerIdentity, found: ServerIdentity, reached: int
    ) -> None:
        """Check that the server's log has what the table has: a promoted copy may.

        Args:
            reached: the position in the log of the server that was known.

        Raises:
            ChangeSourceError: it has another one.
        """
        if found == known:
            return
        is_same = found.system == known.system and found.timeline > known.timeline
        left = session.branch_points(found.timeline).get(known.timeline) if is_same else None
        if left is not None and reached <= left:
            return
        since = f", and left timeline {known.timeline} at {lsn_text(left)}" if left else ""
        raise ChangeSourceError(
            f"{self.server} has another log than {self.load.table.name} was read from: it is "
            f"{found}{since}; the table is at {lsn_text(reached)} of {known}. Make the table anew, "
            f"and drop the slot {self.slot!r}",
            slot=self.slot,
            table=self.load.table.name,
        )

    def check_slot(self, confirmed: int | None, reached: int) -> None:
        """Check that the slot has all changes behind a position in the log.

        Args:
            confirmed: up to where it has forgotten changes; None: there is no slot.

        Raises:
            ChangeSourceError: it has not.
        """
        name = self.load.table.name
        if confirmed is None:
            raise ChangeSourceError(
                f"{self.server} has no slot {self.slot!r} any more, and with it forgot changes: "
                f"make {name} anew",
                slot=self.slot,
            )
        if confirmed > reached:
            raise ChangeSourceError(
                f"slot {self.slot!r} of {self.server} is at {lsn_text(confirmed)}, beyond "
                f"{lsn_text(reached)}, which {name} is at: it was made anew, its changes were "
                "given to another, or the table was taken back. Make the table anew, and drop "
                "the slot",
                slot=self.slot,
                table=name,
            )


def _lsn(place: str) -> int:
    """Read the position in the log from a place of Debezium's."""
    said = json.loads(place)
    return max(int(said.get(name) or 0) for name in ("lsn", "lsn_proc", "lsn_commit"))


def _located(bad: BadRecord) -> BadRecord:
    """Number a bad record by its position in the log, so that it has the same when it comes again.

    Rows of a snapshot have no position of their own, and get a digest of what they are.
    """
    event = json.loads(bad.record)
    said = event.get("payload", event).get("source") or {}
    if said.get("snapshot") in ("false", None) and said.get("lsn"):
        return replace(bad, number=int(said["lsn"]), unit="lsn")
    digest = hashlib.blake2b(bad.record, digest_size=8).digest()
    return replace(bad, number=int.from_bytes(digest, "big") >> 1, unit="digest")


class _Run:
    """One run of a source, from a place on."""

    def __init__(
        self,
        source: PostgresSource,
        session: Session,
        engine: Engine,
        once: bool,
        identity: ServerIdentity,
        place: str | None,
    ) -> None:
        self._source = source
        self._load = source.load
        self._session = session
        self._engine = engine
        self._identity = identity
        self._reached = None if place is None else _lsn(place)
        self._mark = str(uuid4()) if once else None
        self._bad = BadRecords(self._load.errors, self._load.commit_user, None)
        self._decoder = self._load.decoder(lambda bad: self._bad.add(_located(bad)))
        self._committed = self._asked = self._heard = time.monotonic()
        self._is_in_snapshot = self._is_marked = self._has_rows = False
        self._counts = source.rows, source.bad  # of what is committed
        self._before_bad = source.bad

    def go(self, stopped: threading.Event) -> bool:
        """Bring what comes; True: begin again at the place that the table has reached."""
        writer = self._load.writer()
        try:
            while not stopped.is_set():
                batch = self._engine.next(_TICK)
                self._watch()
                if batch is None:
                    self._ask()
                    continue
                self._heard = time.monotonic()
                rows = self._rows(batch)
                if self._decoder.target.columns.keys() - self._load.table.schema.names:
                    writer.close()
                    self._load.grow(self._decoder.target)
                    if self._has_rows:  # a transaction's, of which the writer had the first part
                        self._source.rows, self._source.bad = self._counts
                        return True
                    writer = self._load.writer()
                if self._take(batch, rows, writer):
                    break
            return False
        finally:
            writer.close()
            self._bad.close()

    def _ask(self) -> None:
        """Have the source say where it is, if that is waited for.

        Raises:
            ChangeSourceError: it was asked for long.
        """
        if self._mark is None or self._is_in_snapshot:
            return
        if time.monotonic() - self._heard > _SILENCE:
            raise ChangeSourceError(
                f"{self._source.described} sent nothing for {_SILENCE:g} s: is its slot used, or a "
                "transaction open there for long?"
            )
        self._session.mark(self._mark)

    def _take(self, batch: Batch, rows: pa.Table | None, writer: TableWriter) -> bool:
        """Write a batch; commit what there is with its place, unless more of the snapshot or of a
        transaction follows.

        Returns:
            Whether the table is as the source was when this began, if that is waited for.
        """
        if rows is not None and rows.num_rows:
            writer.write(rows, ROW_KIND)
            self._source.rows += rows.num_rows
            self._has_rows = True
        self._bad.write()
        bad = self._before_bad + self._bad.count
        self._has_rows |= bad > self._source.bad
        self._source.bad = bad
        self._is_in_snapshot = batch.is_of_snapshot
        self._is_marked |= self._mark is not None and self._has_mark(batch)
        is_due = time.monotonic() - self._committed >= self._source.heartbeat
        is_ready = self._has_rows or self._is_marked or is_due
        is_done = is_ready and batch.is_whole and not self._is_in_snapshot
        if is_done:
            self._commit(writer, batch.place)
            self._has_rows, self._counts = False, (self._source.rows, self._source.bad)
        batch.release(is_done=is_done)
        return is_done and self._is_marked

    def _commit(self, writer: TableWriter, place: str) -> None:
        """Commit rows with their place, unless the connector found another log meanwhile.

        Raises:
            ChangeSourceError: the server was restarted or replaced, or its slot made anew.
        """
        source, user = self._source, str(self._load.commit_user)
        confirmed = self._session.confirmed_lsn()  # over the connection of the beginning
        if self._reached is not None and (confirmed is None or confirmed > self._reached):
            newest = newest_place(self._load.table, user, PLACE)  # perhaps a newer process's
            source.check_slot(confirmed, _lsn(newest[PLACE]) if newest else self._reached)
        self._bad.commit()
        said = {PLACE: place, _SOURCE: source.described, _SYSTEM: self._identity.text}
        writer.commit(properties=as_properties(said, user))
        self._committed, self._reached = time.monotonic(), _lsn(place)

    def _rows(self, batch: Batch) -> pa.Table | None:
        texts = batch.of(f"{_PREFIX}.{self._source.source}")
        if not len(texts):
            return None
        records = Records(texts, self._source.described)
        return self._load.complete(self._decoder.decode(records), records)

    def _has_mark(self, batch: Batch) -> bool:
        sought = base64.b64encode(str(self._mark).encode()).decode()
        messages = batch.of(f"{_PREFIX}.message")
        return bool(pc.any(pc.match_substring(messages, sought)).as_py())

    def _watch(self) -> None:
        """Warn of a log that grows behind the slot."""
        if time.monotonic() - self._asked < min(self._source.heartbeat, 60.0):
            return
        self._asked = time.monotonic()
        kept = self._session.kept_bytes()
        if kept >= self._source.warn_bytes:
            _log.warning(
                "%s keeps %d bytes of its log for the slot %s: it may fill its disk. Is this "
                "process slower than the source, or another transaction open there?",
                self._source.server,
                kept,
                self._source.slot,
            )
