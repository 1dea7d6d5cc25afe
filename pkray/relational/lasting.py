"""Keep objects that last as long as a runtime in this process, and close them before it."""

import weakref
from typing import Any, Protocol, TypeVar


class Lasting(Protocol):
    """Runs for a runtime until it is closed."""

    def close(self) -> None:
        """Stop all that runs."""


T = TypeVar("T", bound=Lasting)
_BY_RUNTIME: weakref.WeakKeyDictionary[Any, dict[type, Lasting]] = weakref.WeakKeyDictionary()


def lasting(runtime: Any, kind: type[T]) -> T:
    """Give the one object of a class that lasts as long as a runtime; make it at first."""
    made = _BY_RUNTIME.setdefault(runtime, {}).setdefault(kind, kind())
    assert isinstance(made, kind)
    return made


def close_lasting(runtime: Any) -> None:
    """Close what lasts as long as a runtime, as it ends."""
    for each in _BY_RUNTIME.pop(runtime, {}).values():
        each.close()
