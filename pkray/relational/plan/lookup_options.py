"""Read a LOOKUP hint of a lookup join: how long rows are remembered, and asked for again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pkray.errors import QueryError
from pkray.options.values import duration_millis
from pkray.relational.plan.nodes import Exchange, Hint, Node

LOOKUP = "LOOKUP"
_CACHE = ("cache.max-rows", "cache.ttl")
_RETRY = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")


@dataclass(frozen=True)
class LookupOptions:
    """Tells how a lookup join looks rows up.

    Attributes:
        cached_rows: keys whose rows are remembered; 0: none are.
        cached_millis: for how long after they were looked up; 0: until others need the room.
        attempts: how often a row whose key is not there is looked up again.
        delay: milliseconds between two attempts.
    """

    cached_rows: int = 0
    cached_millis: int = 0
    attempts: int = 0
    delay: int = 0

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Self:
        """Read the options of a hint, without the table that it names.

        Raises:
            QueryError: an option has no meaning here, is missing, or cannot have its value.
        """
        unknown = sorted(options.keys() - {*_CACHE, *_RETRY})
        if unknown:
            raise QueryError(
                f"hint LOOKUP has no option {unknown[0]!r} here: leave it out, or write one of "
                f"table, {', '.join((*_CACHE, *_RETRY))}",
                options=tuple(unknown),
            )
        if "cache.ttl" in options and "cache.max-rows" not in options:
            raise _lacking("cache.ttl", "cache.max-rows")
        given = [name for name in _RETRY if name in options]
        for name in _RETRY if given else ():
            if name not in options:
                raise _lacking(given[0], name)
        _check_word(options, "retry-predicate", "lookup_miss")
        _check_word(options, "retry-strategy", "fixed_delay")
        return cls(
            _count(options, "cache.max-rows"),
            _millis(options, "cache.ttl"),
            _count(options, "max-attempts"),
            _millis(options, "fixed-delay"),
        )


def lookup_options(node: Node) -> LookupOptions:
    """Find what the hint right below a side of a join says; without one, nothing."""
    while isinstance(node, Exchange | Hint):
        if isinstance(node, Hint) and node.name == LOOKUP:
            return LookupOptions.read(dict(node.options))
        node = node.input
    return LookupOptions()


def _lacking(name: str, missing: str) -> QueryError:
    return QueryError(f"hint LOOKUP has {name!r} without {missing!r}: write both")


def _check_word(options: Mapping[str, str], name: str, word: str) -> None:
    if options.get(name, word) != word:
        raise QueryError(
            f"option {name!r} of hint LOOKUP cannot be {options[name]!r}: write {word!r}"
        )


def _count(options: Mapping[str, str], name: str) -> int:
    said = options.get(name)
    if said is None:
        return 0
    if not said.isdecimal() or not int(said):
        raise QueryError(
            f"option {name!r} of hint LOOKUP cannot be {said!r}: write a whole number, 1 at least"
        )
    return int(said)


def _millis(options: Mapping[str, str], name: str) -> int:
    said = options.get(name)
    if said is None:
        return 0
    try:
        return duration_millis(said)
    except ValueError:
        raise QueryError(
            f"option {name!r} of hint LOOKUP cannot be {said!r}: write a duration such as '10 s'"
        ) from None
