"""Arguments of public calls: checked by their annotations before anything happens.

`checked` wraps a function, `checked_class` the public methods of a class. What an annotation
refuses is a `PkrayError` that names the argument, its value and what to give; what stands for a
plain value, such as numpy's integers, becomes that value. ``object`` and ``Any`` take everything:
the function itself looks at those, as at types that only type checkers import.
"""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_type_hints

from pkray.arguments.checks import Check, Give, Refused, check_of
from pkray.errors import InputError, OptionError, SchemaError, TableError, TableNotFoundError

_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C", bound=type)

NameOfTable: TypeAlias = Annotated[
    str,
    Give("a table's name: database.table, such as shop.orders", TableNotFoundError, longest=400),
]
NameOfSystemTable: TypeAlias = Annotated[
    str, Give("a system table's name, such as 'files'", TableNotFoundError)
]
Name: TypeAlias = Annotated[str, Give("text", TableError, longest=200)]
"""The name of a database, a tag or a branch."""
Label: TypeAlias = Annotated[str, Give("text", longest=200)]
"""The name of a consumer, a commit user or a Spark query."""
Comment: TypeAlias = Annotated[str, Give("text", SchemaError)]
ColumnNames: TypeAlias = Annotated[
    Sequence[str], Give("a list of column names, such as ['id', 'name']", InputError)
]
PartitionList: TypeAlias = Annotated[
    Sequence[Mapping[str, object]],
    Give('a list of values by partition column, such as [{"dt": "2026-01-31"}]', InputError),
]
BucketList: TypeAlias = Annotated[
    Sequence[int], Give("a list of bucket numbers, such as [0, 3]", InputError)
]
Seconds: TypeAlias = Annotated[float, Give("seconds, a finite number")]
SnapshotId: TypeAlias = Annotated[int, Give("a snapshot's id, an int")]
Options: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]
"""A table's options: a mapping, or pairs."""
Warehouse: TypeAlias = Annotated[
    str | os.PathLike[str], Give("a folder, or an object store's URL", is_secret=True)
]
Settings: TypeAlias = Annotated[
    Mapping[str, Any], Give("a mapping of names and values", OptionError, is_secret=True)
]


def checked(function: _F) -> _F:
    """Check the arguments of a function by its annotations, which are read when it is called first.

    Missing and unknown arguments are Python's TypeError, as everywhere.
    """
    checks: _Checks | None = None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal checks
        if checks is None:
            checks = _Checks(function)
        try:
            return function(*checks.positional(args), **checks.named(kwargs))
        except RecursionError as error:
            what = "an argument" if checks.take_anything else "what it works on"
            raise InputError(
                f"{function.__name__} cannot take this: {what} is nested too deeply, or holds "
                "itself"
            ) from error

    vars(call)["is_checked"] = True
    return cast(_F, call)


def checked_class(described: _C) -> _C:
    """Make a class's public methods, and a dataclass's constructor, `checked`."""
    public = [name for name in vars(described) if not name.startswith("_")]
    for name in [*public, "__init__"] if dataclasses.is_dataclass(described) else public:
        member = vars(described)[name]
        if isinstance(member, staticmethod | classmethod):
            setattr(described, name, type(member)(checked(member.__func__)))
        elif inspect.isfunction(member):
            setattr(described, name, checked(member))
    return described


def check_fields(value: object) -> None:
    """Check a dataclass's fields by their annotations.

    Raises:
        PkrayError: as calling its class would, were that `checked`.
    """
    kind = type(value)
    hints = get_type_hints(kind, include_extras=True)
    for name, annotation in hints.items():
        check = check_of(annotation)
        if check is not None:
            _taken(name, check, getattr(value, name))


class _Checks:
    """The checks of a function's parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = inspect.signature(function).parameters.values()
        checks = {each.name: check_of(_annotation(function, each)) for each in parameters}
        named = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
        self._by_name = checks
        self._in_order = [
            (each.name, checks[each.name]) for each in parameters if each.kind not in named
        ]
        given = [check for name, check in checks.items() if name not in ("self", "cls")]
        self.take_anything = None in given

    def positional(self, args: tuple[Any, ...]) -> Sequence[Any]:
        """Return the values as the function takes them."""
        if len(args) > len(self._in_order):
            return args  # Python says so
        return [
            value if check is None else _taken(name, check, value)
            for (name, check), value in zip(self._in_order, args, strict=False)
        ]

    def named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the values as the function takes them."""
        for name, value in kwargs.items():
            check = self._by_name.get(name)
            if check is not None:
                kwargs[name] = _taken(name, check, value)
        return kwargs


def _taken(argument: str, check: Check, value: object) -> Any:
    try:
        return check(value)
    except Refused as refused:
        raise refused.error(argument) from None


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if parameter.annotation is inspect.Parameter.empty:
        return object
    alone = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        names = inspect.unwrap(function).__globals__
        hints = get_type_hints(alone, names, include_extras=True)
    except NameError:  # only type checkers import it
        return object
    return hints[parameter.name]
