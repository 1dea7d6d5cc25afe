"""Checks of values by annotations: what each takes, and the words that say so."""

from __future__ import annotations

import collections.abc
import math
import operator
import os
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import numpy as np

from pkray.errors import OptionError, PkrayError

Check: TypeAlias = Callable[[Any], Any]
"""Returns the value as the function takes it; raises `Refused` where it takes none such."""

_SHOWN = 60
"""Characters of a text that a message repeats."""
_LIMIT = 1 << 63


@dataclass(frozen=True)
class Give:
    """Stands in ``Annotated``: what a message says of an argument.

    Args:
        what: what to give.
        error: what is raised.
        is_secret: whether the message leaves the value out.
        is_final: whether nothing says it better.
        longest: characters of a text at most.
    """

    what: str
    error: type[PkrayError] = OptionError
    is_secret: bool = False
    is_final: bool = False
    longest: int | None = None


class CheckedInside:
    """Stands in ``Annotated``: the function itself checks the argument."""


class Refused(Exception):
    """A value that a check does not take.

    Args:
        give: what it takes.
        place: where in the argument the value is, such as ``[0]``.
    """

    def __init__(self, value: object, give: Give, place: str = "") -> None:
        super().__init__(place)
        self.value = value
        self.give = give
        self.place = place

    def inside(self, place: str) -> Refused:
        """Say the same of the value that holds it."""
        return Refused(self.value, self.give, place + self.place)

    def error(self, argument: str) -> PkrayError:
        """Make the error that the caller gets."""
        hidden = self.give.is_secret and self.value is not None
        shown = _kind(self.value) if hidden else _shown(self.value)
        return self.give.error(
            f"{argument}{self.place} cannot be {shown}: give {self.give.what}",
            value=None if hidden else self.value,
            arguments=(argument,),
        )


def check_of(kind: Any) -> Check | None:
    """Make the check of an annotation; None where it takes everything."""
    if kind in (Any, object):
        return None
    origin, arguments = get_origin(kind), get_args(kind)
    if CheckedInside in arguments:
        return None
    if origin is Annotated:
        return _said(arguments[0], next(each for each in arguments[1:] if isinstance(each, Give)))
    if origin in (Union, types.UnionType):
        return _any_of(arguments)
    if origin is Literal:
        return _one_of(arguments)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is tuple:
        return _parts(arguments)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*map(check_of, arguments))
    if origin is not None and issubclass(origin, Collection):
        return _list(arguments[0])
    if origin is os.PathLike:
        return _path
    if origin is collections.abc.Callable:
        return _by(callable, Give("a function"))
    return _instance(origin or kind)


def _shown(value: object) -> str:
    """Show a value in a message: short, and nothing of what may hold a secret."""
    if isinstance(value, str):
        if "://" in value:
            return "that URL"
        return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…")
    if value is None or isinstance(value, bool | float | np.bool_):
        return str(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 64 else f"a number of {value.bit_length()} bits"
    return _kind(value)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        such = isinstance(value, bool | int | float)
        raise Refused(value, Give(f"text, such as {_shown(str(value))}" if such else "text"))
    text = value if type(value) is str else str.__str__(value)
    if not text.isascii() or "\0" in text:
        _check_characters(text)
    return text


def _check_characters(text: str) -> None:
    if "\0" in text:
        raise Refused(text, Give("text without NUL characters", is_final=True))
    try:
        text.encode()
    except UnicodeEncodeError:
        give = Give("text that UTF-8 can hold, without half characters", is_final=True)
        raise Refused(text, give) from None


def _whole(value: Any) -> int:
    if type(value) is not int:
        if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
            raise Refused(value, Give("a whole number, an int"))
        try:
            value = operator.index(value)
        except TypeError:  # an array
            raise Refused(value, Give("a whole number, an int")) from None
    if not -_LIMIT <= value < _LIMIT:
        raise Refused(value, Give("a whole number of 64 bits"))
    return value


def _number(value: Any) -> float:
    plain = isinstance(value, int | float | np.integer | np.floating)
    if not plain or isinstance(value, bool) or not math.isfinite(value):
        raise Refused(value, Give("a finite number"))
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise Refused(value, Give("True or False"))
    return bool(value)


def _none(value: Any) -> None:
    if value is not None:
        raise Refused(value, Give("None"))


def _path(value: Any) -> Any:
    if not isinstance(value, os.PathLike):
        raise Refused(value, Give("a path"))
    try:
        text = os.fspath(value)
    except Exception:
        raise Refused(value, Give("a path")) from None
    return _text(text) and value


_PLAIN: dict[Any, Check] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _flag,
    type(None): _none,
    None: _none,
}


def _by(takes: Callable[[Any], bool], give: Give) -> Check:
    def check(value: Any) -> Any:
        if not takes(value):
            raise Refused(value, give)
        return value

    return check


def _instance(kind: type) -> Check:
    if getattr(kind, "_is_protocol", False):
        names = [name for name in vars(kind) if not name.startswith("_")]
        return _by(
            lambda value: not isinstance(value, type) and all(hasattr(value, n) for n in names),
            Give(f"a {kind.__name__}"),
        )
    return _by(lambda value: isinstance(value, kind), Give(describe(kind)))


def _one_of(words: Sequence[Any]) -> Check:
    return _by(
        lambda value: isinstance(value, str) and value in words, Give(describe(Literal[*words]))
    )


def _said(kind: Any, give: Give) -> Check:
    """Make a check whose refusals say what an annotation's author says."""
    inner = check_of(kind)

    def check(value: Any) -> Any:
        try:
            found = value if inner is None else inner(value)
            if give.longest is not None and len(found) > give.longest:
                what = f"{give.what}, of at most {give.longest} characters"
                raise Refused(value, replace(give, what=what, is_final=True))
            return found
        except Refused as refused:
            what = refused.give.what if refused.give.is_final else give.what
            raise Refused(refused.value, replace(give, what=what), refused.place) from None

    return check


def _any_of(kinds: Sequence[Any]) -> Check | None:
    has_none = type(None) in kinds
    kinds = [kind for kind in kinds if kind is not type(None)]
    checks = [check_of(kind) for kind in kinds]
    if None in checks:
        return None
    what = " or ".join(describe(kind) for kind in kinds)

    def check(value: Any) -> Any:
        if value is None and has_none:
            return None
        refusals = []
        for each in checks:
            try:
                return each(value)  # type: ignore[misc] # none is None
            except Refused as refused:
                refusals.append(refused)
        nearest = max(refusals, key=lambda refused: len(refused.place))
        if nearest.place or len(checks) == 1 or (isinstance(value, str) and str in kinds):
            raise nearest if nearest.place else refusals[kinds.index(str) if str in kinds else 0]
        raise Refused(value, replace(nearest.give, what=what))

    return check


def _list(kind: Any) -> Check:
    item, give = check_of(kind), Give(f"a list of {describe(kind, many=True)}")

    def check(value: Any) -> Any:
        if kind is str and isinstance(value, str):
            what = f"a list, such as [{_shown(value)}]"
            raise Refused(value, replace(give, what=what, is_final=True))
        values = value if isinstance(value, list | tuple) else _values(value, give)
        if item is None:
            return values
        found: list[Any] = []
        try:
            for each in values:
                found.append(item(each))
        except Refused as refused:
            raise refused.inside(f"[{len(found)}]") from None
        return tuple(found) if isinstance(values, tuple) else found

    return check


def _values(value: Any, give: Give) -> list[Any]:
    """List the values of what is no list: a set, an index or an array of names is as good."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Collection):
        raise Refused(value, give)
    try:
        return list(value)
    except TypeError:  # an array without dimensions
        raise Refused(value, give) from None


def _parts(kinds: Sequence[Any]) -> Check:
    """Check a tuple: so many values, each of its kind."""
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return _list(kinds[0])
    checks = [check_of(kind) for kind in kinds]
    give = Give(f"({', '.join(describe(kind) for kind in kinds)})")

    def check(value: Any) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(checks):
            raise Refused(value, give)
        pairs = zip(checks, value, strict=True)
        return tuple(
            each if item is None else _part(item, each, f"[{place}]")
            for place, (item, each) in enumerate(pairs)
        )

    return check


def _mapping(keys: Check | None, values: Check | None) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Refused(value, Give("a mapping, such as {'name': 'value'}"))
        if keys is not None:
            for key in value:
                _part(keys, key, f"[{_shown(key)}]" if isinstance(key, str) else "'s key")
        if values is None:
            return value
        return {key: _part(values, each, f"[{_shown(key)}]") for key, each in value.items()}

    return check


def _part(check: Check, value: object, place: str) -> Any:
    try:
        return check(value)
    except Refused as refused:
        raise refused.inside(place) from None


_WORDS: dict[Any, tuple[str, str]] = {
    str: ("text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "True or False"),
}


def describe(kind: Any, *, many: bool = False) -> str:
    """Say in words what an annotation takes."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in (Any, object):
        return "values" if many else "a value"
    if kind in _WORDS:
        return _WORDS[kind][many]
    if origin is Annotated:
        return next(each.what for each in arguments[1:] if isinstance(each, Give))
    if origin in (Union, types.UnionType):
        return " or ".join(
            describe(each, many=many) for each in arguments if each is not type(None)
        )
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin is tuple:
        return f"({', '.join(describe(each) for each in arguments if each is not Ellipsis)})"
    if origin is os.PathLike:
        return "paths" if many else "a path"
    if origin is not None and issubclass(origin, Mapping):
        return "mappings" if many else "a mapping"
    if origin is not None and issubclass(origin, Collection):
        return f"{'lists' if many else 'a list'} of {describe(arguments[0], many=True)}"
    name = (origin or kind).__name__
    return name if many else f"a {name}"
