"""Questions to a PostgreSQL: about its replication slot, and marks in its log."""

from collections.abc import Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pkray.cdc.postgresql.engine import start_java
from pkray.cdc.postgresql.server_identity import ServerIdentity, branch_points
from pkray.closing import Closeable
from pkray.errors import ChangeSourceError
from pkray.storage.secrets import Secret

MARK = "pkray"
"""The prefix of the messages that are written to the source's log."""
_SECONDS = "30"


@dataclass(frozen=True)
class Server:
    """Locates a database, and says who asks."""

    host: str
    port: int
    database: str
    user: str
    password: Secret

    @property
    def properties(self) -> Mapping[str, str]:
        """Name them as Debezium does."""
        return {
            "database.hostname": self.host,
            "database.port": str(self.port),
            "database.dbname": self.database,
            "database.user": self.user,
            "database.password": self.password.reveal(),
        }

    def __str__(self) -> str:
        return f"PostgreSQL {self.database!r} at {self.host}:{self.port}"


class Session(Closeable):
    """Asks a server, over one connection.

    Raises:
        ChangeSourceError: it does not answer, or refuses.
    """

    def __init__(self, server: Server, slot: str) -> None:
        self._server = server
        self._slot = slot
        start_java()
        self._connection: Any = None
        with self._named():
            self._connection = self._connected()

    def _connected(self, **more: str) -> Any:
        import jpype

        said = jpype.JClass("java.util.Properties")()
        properties = {
            "user": self._server.user,
            "password": self._server.password.reveal(),
            "connectTimeout": _SECONDS,
            "socketTimeout": _SECONDS,
            "ApplicationName": "pkray",
            **more,
        }
        for name, value in properties.items():
            said.setProperty(name, value)
        where = f"{self._server.host}:{self._server.port}/{self._server.database}"
        return jpype.JClass("org.postgresql.Driver")().connect(f"jdbc:postgresql://{where}", said)

    def close(self) -> None:
        with suppress(Exception):  # it may be gone
            self._connection.close()

    def confirmed_lsn(self) -> int | None:
        """Tell up to where the slot's changes were taken; None: there is no slot."""
        found = self._first(
            "SELECT coalesce(confirmed_flush_lsn - '0/0', 0)::bigint::text "
            "FROM pg_replication_slots WHERE slot_name = ?"
        )
        return None if found is None else int(found)

    def identity(self) -> ServerIdentity:
        """Ask which server's log it is."""
        (row,) = self._replicating("IDENTIFY_SYSTEM")
        return ServerIdentity(row[0], int(row[1]))

    def branch_points(self, timeline: int) -> Mapping[int, int]:
        """Ask where the log of a timeline left the earlier ones, by their numbers."""
        if timeline == 1:  # it has no file
            return {}
        (row,) = self._replicating(f"TIMELINE_HISTORY {timeline}")
        return branch_points(row[1])

    def _replicating(self, command: str) -> list[tuple[str, str]]:
        """Give the first two columns of the answer to a command of replication."""
        with self._named():
            connection = self._connected(
                replication="database", preferQueryMode="simple", assumeMinServerVersion="14"
            )
            try:
                rows = connection.createStatement().executeQuery(command)
                found = []
                while rows.next():
                    found.append((str(rows.getString(1)), str(rows.getString(2))))
                return found
            finally:
                connection.close()

    def kept_bytes(self) -> int:
        """Tell how many bytes of its log the server keeps for the slot."""
        found = self._first(
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint::text "
            "FROM pg_replication_slots WHERE slot_name = ?"
        )
        return int(found or 0)

    def mark(self, content: str) -> None:
        """Write a message to the log, which comes back as an event.

        It is a transaction: behind a place within one the connector waits for the next.
        """
        self._first(f"SELECT pg_logical_emit_message(true, '{MARK}', ?)::text", content)

    def _first(self, query: str, argument: str | None = None) -> str | None:
        with self._named():
            statement = self._connection.prepareStatement(query)
            try:
                statement.setString(1, self._slot if argument is None else argument)
                rows = statement.executeQuery()
                found = rows.getString(1) if rows.next() else None
                return None if found is None else str(found)
            finally:
                statement.close()

    @contextmanager
    def _named(self) -> Any:
        try:
            yield
        except ChangeSourceError:
            raise
        except Exception as error:  # Java's
            said = error.getMessage() if hasattr(error, "getMessage") else error
            raise ChangeSourceError(f"{self._server}: {said}", server=str(self._server)) from None
