"""Compute what follows from an immutable object once, in whatever thread asks first."""

import functools
from typing import Any, TypeVar

T = TypeVar("T")


class cached_value(functools.cached_property[T]):  # noqa: N801 # as the one of functools
    """Keep a value that each computation gives alike, without a lock.

    Python 3.11 computes under a lock that all objects of a class share: threads that ask nodes of
    two classes, each of which needs the other's value, would wait for each other for ever.
    """

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        assert self.attrname is not None, "set by the class"
        value = instance.__dict__[self.attrname] = self.func(instance)
        return value
