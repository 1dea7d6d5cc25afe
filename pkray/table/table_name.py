"""Name a catalog's tables as Paimon does: ``db.t``, ``db.t$branch_b``, ``db.t$files``."""

import re
from dataclasses import dataclass
from typing import Self

from pkray.arguments.file_names import MOST_CHOSEN_BYTES, fault
from pkray.errors import TableError, TableNotFoundError

_BRANCH = "branch_"
_MAIN = "main"
_NAME = re.compile(r"[^\s./\\$:][^\s/\\$:]*")


def _may_be(name: str) -> bool:
    """Whether it may name a folder of a database or a table."""
    return _NAME.fullmatch(name) is not None and fault(name, MOST_CHOSEN_BYTES) is None


@dataclass(frozen=True)
class TableName:
    """The parts of a table's name.

    Args:
        branch: None is the table itself.
        system: a system table of it; None is its rows.
    """

    database: str
    table: str
    branch: str | None = None
    system: str | None = None

    @classmethod
    def parse(cls, name: object) -> Self:
        """Parse a name, or raise `TableNotFoundError` where no table can have it."""
        text = name if isinstance(name, str) else ""
        database, _, rest = text.partition(".")
        table, *marks = rest.split("$")
        branch = system = None
        if marks and marks[0].startswith(_BRANCH):
            branch = marks.pop(0).removeprefix(_BRANCH)
        if marks:
            system = marks.pop(0).lower()
        is_whole = all((database, table, branch != "", system != "", not marks))
        is_branch = branch is None or fault(branch, MOST_CHOSEN_BYTES) is None
        if not (is_whole and is_branch and _may_be(database) and _may_be(table)):
            raise TableNotFoundError(
                f"{name!r} is not a table's name: write database.table, such as shop.orders, "
                "without spaces, slashes, colons and control characters",
                table=name,
            )
        return cls(database, table, None if branch == _MAIN else branch, system)

    @property
    def itself(self) -> str:
        """``database.table``."""
        return f"{self.database}.{self.table}"

    @property
    def rows(self) -> str:
        """The name less the system table."""
        return self.itself if self.branch is None else f"{self.itself}${_BRANCH}{self.branch}"

    @property
    def errors(self) -> str:
        """Name the table that keeps what could not be loaded into this one: ``db.t$errors``."""
        return f"{self.itself}_errors"

    def __str__(self) -> str:
        return self.rows if self.system is None else f"{self.rows}${self.system}"

    def require_itself(self) -> str:
        """Return the table itself: see `itself`.

        Raises:
            TableError: it names a branch or a system table.
        """
        if self.system is not None:
            raise TableError(
                f"{str(self)!r} is a system table: it comes and goes with {self.itself}",
                table=str(self),
            )
        if self.branch is not None:
            raise TableError(
                f"{str(self)!r} is a branch: make and delete branches by table.branches of "
                f"{self.itself}",
                table=str(self),
                branch=self.branch,
            )
        return self.itself


def checked_database(name: object) -> str:
    """Check the name of a database.

    Raises:
        TableError: none can have it.
    """
    if not isinstance(name, str) or not _may_be(name) or "." in name:
        raise TableError(
            f"{name!r} is no name of a database: give one without dots, spaces, slashes, colons, "
            "dollar signs and control characters",
            database=name,
        )
    return name
