"""The table of functions: what is known of each is in one place.

A module of this package a family defines them with `Family.add` when it is imported, as `catalogue`
does. The binder calls `resolve` with typed arguments, the compiled expressions `kernel` with Arrow
arrays, and the Spark rendering `spark` with the arguments' Spark SQL.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import pyarrow as pa

from pkray.errors import QueryError, SchemaError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import absent, spans
from pkray.relational.plan.expressions import Call, Expression, Lambda
from pkray.schema.types import DataType


class Written(NamedTuple):
    """A call as it was written.

    Attributes:
        name: by which errors call the function: the canonical one, or of an aggregate the one that
            was written, in lower case.
        arguments: typed.
        dialect: whose rules hold.
        distinct: of an aggregate, whether it takes each value once.
        within_group: of an aggregate, what WITHIN GROUP (ORDER BY …) sorts by.
    """

    name: str
    arguments: tuple[Expression, ...]
    dialect: Dialect
    distinct: bool = False
    within_group: tuple[Expression, ...] = ()

    def exactly(self, count: int) -> tuple[Expression, ...]:
        """Give the arguments; refuse any other number of them, as `between` does."""
        return self.between(count, count)

    def between(self, least: int, most: int | None) -> tuple[Expression, ...]:
        """Give the arguments; refuse too few or too many.

        Args:
            most: None: as many as one likes.

        Raises:
            QueryError: with the counts.
        """
        count = len(self.arguments)
        if count >= least and (most is None or count <= most):
            return self.arguments
        if most is None:
            wanted = f"at least {least}"
        else:
            wanted = str(least) if least == most else f"{least} to {most}"
        noun = "argument" if wanted == "1" else "arguments"
        raise QueryError(f"{self.name} takes {wanted} {noun}, not {count}", function=self.name)

    def taken(
        self, *parameters: Parameter, least: int | None = None, rest: Parameter | None = None
    ) -> tuple[Expression, ...]:
        """Cast each argument as the parameter at its place says.

        Args:
            least: how many arguments must be there; by default as many as there are parameters.
            rest: what further arguments are; None: there are none.

        Raises:
            QueryError: too few or too many, or one that the function does not take.
        """
        minimum = len(parameters) if least is None else least
        count = len(self.between(minimum, None if rest else len(parameters)))
        further = [rest] * (count - len(parameters)) if rest else []
        wanted = [*parameters, *further][:count]
        return tuple(each.taken(self, place) for place, each in enumerate(wanted))


@dataclass(frozen=True)
class Parameter:
    """Describes what a function takes at a place.

    Attributes:
        wanted: what that is, for errors: ``a number``.
        cast: casts an argument to it; None where that cannot be.
    """

    wanted: str
    cast: Callable[[Expression, Dialect], Expression | None]

    def taken(self, call: Written, position: int) -> Expression:
        """Cast the argument at a position, from 0, of a call.

        Raises:
            QueryError: the function does not take it.
        """
        argument = self.cast(call.arguments[position], call.dialect)
        if argument is None:
            raise wrong_argument(call.name, position, call.arguments[position], self.wanted)
        return argument


def wrong_argument(name: str, position: int, argument: Expression, wanted: str = "") -> QueryError:
    """Make the error for an argument whose type the function does not take.

    Args:
        position: from 0.
        wanted: what it takes: ``a number``.
    """
    said = "a lambda" if isinstance(argument, Lambda) else str(argument.type.with_nullable(True))
    remedy = f"; it takes {wanted}" if wanted else "; cast it"
    return QueryError(f"argument {position + 1} of {name} is {said}{remedy}", function=name)


Value: TypeAlias = pa.Array | pa.Scalar
Resolver: TypeAlias = Callable[[Written], Expression]
Kernel: TypeAlias = Callable[[Call, Sequence[Value], int], Value]
SparkText: TypeAlias = Callable[[Call, Sequence[str]], str]
Typing: TypeAlias = Callable[[tuple[Expression, ...]], DataType]


class LambdaValue(Protocol):
    """A compiled lambda, as kernels get it."""

    def __call__(self, parameters: Sequence[Value], parents: pa.Array, rows: int) -> pa.Array:
        """Compute the body.

        Args:
            parameters: arrays of `rows` values, one a parameter.
            parents: int64, for each value the row of the batch that it belongs to, so that the body
                can read columns of that row.
        """


@dataclass(frozen=True)
class Function:
    """One function.

    Attributes:
        name: the canonical one, lower case; plans hold it. Names that only the binder gives
            (``add_wrapping``) are never found by `resolve`.
        usage: what people read: ``upper(text STRING) -> STRING``; empty for canonical names that
            nobody writes.
        about: one sentence that begins with a verb.
        resolve: checks and casts the arguments, chooses what computes and its type; None where only
            the binder makes the Call. Raises QueryError.
        kernel: computes a batch: the Call, its arguments (arrays of the batch's length, or scalars
            for what is constant; of the exact Arrow types of the Call's arguments), the number of
            rows. Gives an array or a scalar of the Call's Arrow type. Raises EvaluationError. A
            Lambda comes as a `LambdaValue`.
        spark: Spark SQL of the same meaning under ANSI mode, in UTC; None: ``name(arguments)``.
            Where Spark has nothing of the same meaning: ``NO_SPARK``; where it has nothing for some
            types, it raises NotImplementedError for those.
        synonyms: other names that people write.
        dialects: where people can write it.
        deterministic: whether equal arguments give equal values.
        fallible: whether the kernel can raise EvaluationError; such a function is computed only for
            the rows that ask for it (in branches of CASE, after AND).
        typing: gives the type of a Call from its arguments; None: `resolve` gives it for both
            dialects.
    """

    name: str
    usage: str
    about: str
    resolve: Resolver | None
    kernel: Kernel
    spark: SparkText | None = None
    synonyms: tuple[str, ...] = ()
    dialects: frozenset[Dialect] = frozenset(Dialect)
    deterministic: bool = True
    family: str = ""
    fallible: bool = True
    typing: Typing | None = None


def no_spark(call: Call, arguments: Sequence[str]) -> str:
    """Say that Spark computes this by the kernel, in a Python function over Arrow batches."""
    raise NotImplementedError


NO_SPARK: SparkText = no_spark
_BY_NAME: dict[str, Function] = {}
_WRITTEN: dict[str, Function] = {}


def define(function: Function) -> Function:
    """Add a function to the table."""
    assert function.name not in _BY_NAME, function.name
    _BY_NAME[function.name] = function
    if function.resolve is not None:
        for name in (function.name, *function.synonyms):
            assert name not in _WRITTEN, name
            _WRITTEN[name] = function
    return function


@dataclass(frozen=True)
class Family:
    """Defines functions of one family.

    Attributes:
        name: as lists of functions show it: ``time``.
        fallible: whether kernels can raise EvaluationError, unless a function says otherwise.
        dialects: which have the functions.
    """

    name: str
    fallible: bool = True
    dialects: frozenset[Dialect] = frozenset(Dialect)

    @property
    def infallible(self) -> Self:
        """Define functions of the family whose kernels raise no EvaluationError."""
        return replace(self, fallible=False)

    def only(self, dialect: Dialect) -> Self:
        """Define functions of the family that one dialect has."""
        return replace(self, dialects=frozenset({dialect}))

    def add(
        self,
        usage: str,
        about: str,
        resolve: Resolver | None,
        kernel: Kernel,
        typing: Typing | None = None,
        spark: SparkText | None = None,
        *,
        name: str = "",
        synonyms: tuple[str, ...] = (),
        deterministic: bool = True,
        fallible: bool | None = None,
    ) -> None:
        """Define a function; `Function` says what the arguments are.

        Args:
            name: by default what stands before the bracket of its usage.
        """
        define(
            Function(
                name or usage.partition("(")[0],
                usage,
                about,
                resolve,
                kernel,
                spark,
                synonyms,
                self.dialects,
                deterministic,
                self.name,
                self.fallible if fallible is None else fallible,
                typing,
            )
        )

    def kernel(
        self,
        usage: str,
        about: str,
        resolve: Resolver | None,
        typing: Typing | None = None,
        spark: SparkText | None = None,
        **facts: Any,
    ) -> Callable[[Kernel], Kernel]:
        """Define a function, as `add` does, that the kernel below computes."""

        def define_with(kernel: Kernel) -> Kernel:
            self.add(usage, about, resolve, kernel, typing, spark, **facts)
            return kernel

        return define_with

    def add_inner(
        self,
        name: str,
        about: str,
        kernel: Kernel,
        typing: Typing | None = None,
        spark: SparkText | None = None,
        *,
        fallible: bool | None = None,
    ) -> None:
        """Define a function that only the binder calls."""
        self.add("", about, None, kernel, typing, spark, name=name, fallible=fallible)

    def alias(
        self, usage: str, about: str, resolve: Resolver, *synonyms: str, name: str = ""
    ) -> None:
        """Define what becomes calls of other functions when it is bound."""

        name = name or usage.partition("(")[0]

        def typing(arguments: tuple[Expression, ...]) -> DataType:
            return resolve(Written(name, arguments, Dialect.SPARK)).type

        self.add(usage, about, resolve, never, typing, name=name, synonyms=synonyms)


def never(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Stand in as the kernel of what becomes other functions when it is bound."""
    raise AssertionError(f"{call.function} becomes other functions when it is bound")


def function(name: str) -> Function:
    """Find a function by its canonical name."""
    return _BY_NAME[name]


def typed_call(name: str, *arguments: Expression) -> Call:
    """Call a function by its canonical name; its `typing` gives the result's type."""
    typing = function(name).typing
    assert typing is not None, name
    return Call(typing(arguments), name, arguments)


def is_known(name: str) -> bool:
    """Whether a function has this canonical name."""
    return name in _BY_NAME


def written(dialect: Dialect) -> list[Function]:
    """List the functions that people can write, by name."""
    found = {each.name: each for each in _WRITTEN.values() if dialect in each.dialects}
    return [found[name] for name in sorted(found)]


def is_function(name: str, dialect: Dialect) -> bool:
    """Whether people can write a function of this name."""
    known = _WRITTEN.get(name.lower())
    return known is not None and dialect in known.dialects


ROW_MAKERS = {"explode", "posexplode", "inline", "stack", "json_tuple"}
"""What stands in FROM and in SELECT, but in no expression; ``_outer`` may follow."""


def resolve(name: str, arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Type a call as it was written.

    Raises:
        QueryError: no such function (the nearest names are said), or wrong arguments.
        UnsupportedError: Spark has it; with the reason why there is none here.
    """
    if not is_function(name, dialect):
        if name.lower().removesuffix("_outer") in ROW_MAKERS:
            raise QueryError(
                f"{name} makes rows: write it by itself in SELECT, or LATERAL VIEW {name}(…) AS "
                "column, and compute with the column",
                function=name,
            )
        why = absent.reason(name)
        if why is not None:
            raise UnsupportedError(f"there is no function {name!r}: {why}", function=name)
        names = [each.name for each in written(dialect)]
        near = difflib.get_close_matches(name.lower(), names, 3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise QueryError(f"no function is called {name!r}{hint}", function=name)
    known = _WRITTEN[name.lower()]
    assert known.resolve is not None
    spans.check_taken(name, arguments)
    try:
        return known.resolve(Written(known.name, arguments, dialect))
    except SchemaError as error:  # of a type that is too deep
        raise QueryError(f"{name}: {error.message}", function=name, **error.values) from None
