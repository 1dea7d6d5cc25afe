"""Functions that tell of the session that a query is written in: constants of its plan."""

import getpass
from collections.abc import Callable

from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import Family, Written
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan.expressions import Expression
from pkray.version import __version__

CONDITIONAL = Family("conditional")


def _user() -> str:
    """Name the user that the process runs as; where the system has no name for it, by number."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def _tells(name: str, value: Callable[[], str], about: str, *synonyms: str) -> None:
    def resolve(call: Written) -> Expression:
        call.exactly(0)
        return text_literal(value())

    family = CONDITIONAL if name == "current_database" else CONDITIONAL.only(Dialect.SPARK)
    family.alias(f"{name}() -> STRING", about, resolve, *synonyms)


_tells("current_user", _user, "Name the user whose process it is.", "user", "session_user")
_tells("version", lambda: f"pkray {__version__}", "Name the release of pkray.")
_tells(
    "current_database",
    lambda: "default",
    "Name the database in which tables without one are looked up.",
    "current_schema",
)
_tells("current_catalog", lambda: "pkray", "Name the catalog, which is always pkray.")
