"""Resolve the names in a query for the binder."""

from collections.abc import Mapping
from typing import Any, Protocol

from pkray.options.values import duration_millis
from pkray.relational.dialect import Dialect
from pkray.relational.plan.nodes import Node
from pkray.scan.moment import Moment

EMISSION = "table.exec.emit."
"""Begins the options of when windows give results."""


class Names(Protocol):
    """Tells what the names in a query stand for."""

    @property
    def dialect(self) -> Dialect:
        """By whose rules queries are typed."""

    def relation(self, parts: tuple[str, ...], options: Mapping[str, str], at: Moment) -> Node:
        """Find a table or a view.

        Args:
            parts: ``("t",)`` or ``("db", "t")``; as written, without quotes.
            options: of an OPTIONS hint.
            at: of VERSION / TIMESTAMP AS OF.

        Raises:
            QueryError: nothing is called so; the nearest names are said.
        """

    def udf(self, name: str) -> Any | None:
        """Find a user's function (a `UserFunction`); None where there is none."""


def zone_of(names: Names) -> str:
    """Find the time zone of the session that queries are of: UTC where there is none."""
    return str(getattr(names, "time_zone", "UTC"))


def database_of(names: Names) -> str:
    """Find the database in which names without one are looked up: default where none is said."""
    return getattr(names, "database", None) or "default"


def emission_of(names: Names) -> dict[str, int]:
    """Find when windows give results beside the watermark, as options of the session say.

    Returns:
        attributes of `Window`: ``early``, ``lateness`` and ``late_delay``, in microseconds.
    """
    options: Mapping[str, str] = getattr(names, "emission", {})

    def micros(name: str) -> int:
        return 1000 * duration_millis(options.get(f"{EMISSION}{name}", "0 ms"))

    found = {"lateness": micros("allow-lateness")}
    if options.get(f"{EMISSION}early-fire.enabled", "").lower() == "true":
        found["early"] = micros("early-fire.delay")
    if options.get(f"{EMISSION}late-fire.enabled", "").lower() == "true":
        found["late_delay"] = micros("late-fire.delay")
    return found
