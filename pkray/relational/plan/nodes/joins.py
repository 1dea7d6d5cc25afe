"""Nodes that pair rows of two inputs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

from pkray.relational.plan import describe
from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.expressions import TRUE, Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.keys import best_key, unique_keys, upsert_keys
from pkray.relational.plan.node import (
    ALL,
    INSERT,
    Key,
    Keys,
    Kinds,
    Lint,
    Node,
    State,
    TwoInputs,
    WindowBounds,
    check_as_many,
)
from pkray.relational.plan.nodes.changes import Exchange, without_bounds
from pkray.schema.types import DataType


class JoinKind(StrEnum):
    """Names what a join gives.

    ``SINGLE`` is LEFT that fails if a row has more than one match (a scalar subquery). ``MARK``
    gives the left rows and a BOOLEAN: whether there is a match (with ``null_aware``: NULL where
    there is none but a comparison with a NULL, as IN has it). ``ANTI`` with ``null_aware`` is NOT
    IN.
    """

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"
    SINGLE = "single"
    MARK = "mark"

    @property
    def keeps_right(self) -> bool:
        """Whether the right side's columns come out."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK)


BOOLEAN = DataType("BOOLEAN")


@dataclass(frozen=True)
class Pairing(TwoInputs):
    """Pairs rows that are equal in some columns.

    Attributes:
        left_keys, right_keys: columns of each side that are equal, of one type.
        right_names: what each right column is called in the result, distinct from the left ones
            (also in kinds that give no right columns).
    """

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    right_names: tuple[str, ...]

    computes = ("condition",)

    @property
    def condition(self) -> Expression:
        """Say what holds besides; each kind has it as an attribute, behind its own ones."""
        raise NotImplementedError

    @property
    def paired(
        self,
    ) -> tuple[Node, Node, JoinKind, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """List what each kind of join has first, to make one of another kind."""
        return self.left, self.right, self.kind, self.left_keys, self.right_keys, self.right_names

    @cached_value
    def right_fields(self) -> Fields:
        """Give the right side's columns under the names they have in the result."""
        pairs = zip(self.right.fields, self.right_names, strict=True)
        return Fields(tuple(replace(column, name=name) for column, name in pairs))

    @cached_value
    def names_given(self) -> Mapping[str, str]:
        """Map each right column to its name in the result."""
        return dict(zip(self.right.fields.names, self.right_names, strict=True))

    def renamed(self, columns: Iterable[str]) -> frozenset[str]:
        """Name columns of the right side as the result does."""
        return frozenset(self.names_given[name] for name in columns)

    def described(self) -> list[tuple[str, str]]:
        safe: tuple[bool, ...] = getattr(self, "null_safe", ()) or (False,) * len(self.left_keys)
        pairs = " AND ".join(
            f"{one} {'<=>' if each else '='} {self.names_given[other]}"
            for one, each, other in zip(self.left_keys, safe, self.right_keys, strict=True)
        )
        return [
            ("joinType", str(self.kind)),
            ("where", pairs),
            *self.described_times(),
            ("condition", describe.condition(self.condition)),
        ]

    def described_times(self) -> list[tuple[str, str]]:
        """Name what it asks of times, as `described` does."""
        return []

    def check_lengths(self) -> None:
        check_as_many("leftKeys", self.left_keys, "rightKeys", self.right_keys)
        right = self.right.fields
        check_as_many("rightNames", self.right_names, "columns of the right input", right)

    def exchanged(self) -> Node:
        left, right = Exchange(self.left, self.left_keys), Exchange(self.right, self.right_keys)
        return self.with_inputs(left, right)

    def _right_keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        return frozenset(self.renamed(key) for key in keys_of(self.right))


@dataclass(frozen=True)
class _Stateful(Pairing):
    """Keeps the rows of both sides, to pair those that come with them."""

    def _two_sided(self, cleaned_by: str) -> tuple[State, ...]:
        keys = (self.left_keys, self.right_keys)
        result = []
        for side, each, key in zip(("left", "right"), self.inputs, keys, strict=True):
            unique = best_key(each, unique_keys(each))
            row = unique if unique is not None else ("row",)
            whole = (*key, *(name for name in row if name not in key))
            outer = JoinKind.LEFT if side == "left" else JoinKind.RIGHT
            counted = self.kind in (outer, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI)
            grows = f"rows of the {side} input" + (", with match counts" if counted else "")
            result.append(State(f"{side}State", "two-sided", whole, grows, cleaned_by))
        return tuple(result)

    def keyed_columns(self) -> Iterator[Fields]:
        if self.is_windowed():
            yield from super().keyed_columns()
            return
        for each, state in zip(self.inputs, self.states(), strict=True):
            by_row = "row" in state.key and "row" not in each.fields
            is_whole = by_row and change_kinds(each) != INSERT
            named = (name for name in state.key if name in each.fields)
            yield each.fields if is_whole else each.fields.only(named)

    def kinds_from(self, inputs: tuple[Kinds, ...]) -> Kinds:
        return inputs[0] | inputs[1] if self.kind in (JoinKind.INNER, JoinKind.SEMI) else ALL


@dataclass(frozen=True)
class Join(_Stateful):
    """Pairs rows. Without keys and with a true condition it is a cross join.

    Attributes:
        left_keys, right_keys: columns of each side that are equal, of one type; NULL keys never
            match unless `null_safe`.
        condition: what holds besides, over the left columns and the right ones under
            `right_names`.
        right_names: what each right column is called in the result, distinct from the left ones
            (also in kinds that give no right columns).
        null_safe: for each key, whether NULL equals NULL (IS NOT DISTINCT FROM).
        null_aware: of ANTI and MARK: the first key is compared as IN does.
        mark_name: of MARK: the BOOLEAN's name.
    """

    condition: Expression = TRUE
    null_safe: tuple[bool, ...] = ()
    null_aware: bool = False
    mark_name: str | None = None

    @cached_value
    def fields(self) -> Fields:
        if self.kind is not JoinKind.MARK:
            return _joined_fields(self)
        assert self.mark_name
        mark = BOOLEAN.with_nullable(self.null_aware)
        return self.left.fields + Fields((Field(self.mark_name, mark),))

    passes_before = True

    def described(self) -> list[tuple[str, str]]:
        _, *others = super().described()
        return [("joinType", f"{self.kind}{' null-aware' if self.null_aware else ''}"), *others]

    def check_lengths(self) -> None:
        super().check_lengths()
        if self.null_safe:
            check_as_many("nullSafe", self.null_safe, "leftKeys", self.left_keys)

    def keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        left, right = keys_of(self.left), self._right_keys_from(keys_of)
        if not self.kind.keeps_right or self.kind is JoinKind.SINGLE:
            return left
        one_right = _covers(self.renamed(self.right_keys), right)
        one_left = _covers(self.left_keys, left)
        found = set(_pairs(left, right))
        if one_right and self.kind in (JoinKind.INNER, JoinKind.LEFT):
            found |= left
        if one_left and self.kind in (JoinKind.INNER, JoinKind.RIGHT):
            found |= right
        if self.kind is JoinKind.FULL:
            found = {key for key in found if self._tells_padding_apart(key)}
        return frozenset(found)

    def _tells_padding_apart(self, key: Key) -> bool:
        """Whether a row without a match, padded with NULLs, agrees with no other in the key."""
        sides = (self.left.fields, self.right_fields)
        return all(
            any(name in side and not side[name].type.nullable for name in key) for side in sides
        )

    def kinds_from(self, inputs: tuple[Kinds, ...]) -> Kinds:
        return INSERT if self.is_windowed() else super().kinds_from(inputs)

    def needs_before(self, index: int, above: bool) -> bool:
        """Whether no row is replaced by its key, as the columns that are joined do not find it."""
        keys = frozenset((self.left_keys, self.right_keys)[index])
        return above or not _covers(keys, upsert_keys(self.inputs[index]))

    def states(self) -> tuple[State, ...]:
        if not self.is_windowed():
            return self._two_sided("ttl")
        kept = []
        for side, keys in (("left", self.left_keys), ("right", self.right_keys)):
            grows = f"rows of open windows of the {side} input"
            kept.append(State(f"{side}State", "ordered", keys, grows, "watermark"))
        return tuple(kept)

    def is_windowed(self) -> bool:
        """Whether both sides are of windows and rows are paired within them."""
        left, right = self.left.window_bounds(), self.right.window_bounds()
        if left is None or right is None:
            return False
        pairs = list(zip(self.left_keys, self.right_keys, strict=True))
        starts = any(a in left.start and b in right.start for a, b in pairs)
        return starts and any(a in left.end and b in right.end for a, b in pairs)

    def window_bounds(self) -> WindowBounds | None:
        """Find the bounds of the side whose rows all come out: those of the other may be NULL."""
        whole = not self.kind.keeps_right or self.is_windowed()
        if self.kind is JoinKind.FULL or not whole:
            return None
        if self.kind is not JoinKind.RIGHT:
            return self.left.window_bounds()
        bounds = self.right.window_bounds()
        return bounds and bounds.renamed(self.renamed)

    def exchanged(self) -> Node:
        return self.with_inputs(
            Exchange(self.left, without_bounds(self.left, self.left_keys)),
            Exchange(self.right, without_bounds(self.right, self.right_keys)),
        )


@dataclass(frozen=True)
class IntervalJoin(_Stateful):
    """Pairs rows of equal keys whose times are near: lower <= left time - right time <= upper.

    Attributes:
        kind: inner, left, right, full, semi or anti.
        lower, upper: microseconds.
    """

    left_time: str
    right_time: str
    lower: int
    upper: int
    condition: Expression = TRUE

    @cached_value
    def fields(self) -> Fields:
        return _joined_fields(self)

    def described_times(self) -> list[tuple[str, str]]:
        bounds = f"{describe.span_text(self.lower)} to {describe.span_text(self.upper)}"
        return [("between", f"{self.left_time} - {self.right_time}: {bounds}")]

    def keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        left = keys_of(self.left)
        return _pairs(left, self._right_keys_from(keys_of)) if self.kind.keeps_right else left

    def kinds_from(self, inputs: tuple[Kinds, ...]) -> Kinds:
        return INSERT if inputs[0] | inputs[1] == INSERT else super().kinds_from(inputs)

    def states(self) -> tuple[State, ...]:
        return self._two_sided("watermark")

    def judges_lateness(self) -> bool:
        return True

    def waits_for_time(self) -> bool:
        return True


@dataclass(frozen=True)
class TemporalJoin(Pairing):
    """Pairs each left row with the version of the right row of its key at the left row's time.

    Attributes:
        kind: inner or left.
        left_time: None: that at which the left row is handled.
        right_time: the column by which the right side's rows are versions; None: a lookup join,
            with the right side as it is when the left row is handled.
    """

    left_time: str | None
    right_time: str | None
    condition: Expression = TRUE

    def of_all_times(self) -> Join:
        """Give the join with all rows of the right side, whatever their time."""
        return Join(*self.paired, self.condition)

    @cached_value
    def fields(self) -> Fields:
        right = Fields(tuple(replace(column, is_rowtime=False) for column in self.right_fields))
        return self.left.fields + (_all_nullable(right) if self.kind is JoinKind.LEFT else right)

    def described_times(self) -> list[tuple[str, str]]:
        return [
            ("asOf", self.left_time or "processing time"),
            ("versions", self.right_time or "processing time"),
        ]

    def keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        return keys_of(self.left)

    def kinds_from(self, inputs: tuple[Kinds, ...]) -> Kinds:
        return inputs[0] if self.right_time is None or inputs[0] == INSERT else ALL

    def has_one_version(self) -> bool:
        """Whether the right side has one row a key at a time: a newer version takes the place of
        the one before. Else each of its rows is a version."""
        return _covers(self.right_keys, upsert_keys(self.right))

    def needs_before(self, index: int, above: bool) -> bool:
        """Whether rows are told apart as wholes: left ones that wait for their time, and versions
        unless a newer one takes the place of the one before.
        """
        if index == 1:
            return self.right_time is not None and not self.has_one_version()
        return above or self.right_time is not None

    def states(self) -> tuple[State, ...]:
        if self.right_time is None:
            return ()
        return (
            State("leftState", "ordered", self.left_keys, "rows that wait", "watermark"),
            State("rightState", "ordered", self.right_keys, "keys and open versions", "watermark"),
        )

    def judges_lateness(self) -> bool:
        return self.right_time is not None

    def waits_for_time(self) -> bool:
        return self.right_time is not None

    def passes_in_time(self, column: str) -> bool:
        of_left = self.right_time is None or column == self.left_time
        return of_left and self.left.comes_in_time(column)

    def remarks(self) -> Iterator[Lint]:
        if self.right_time is None:
            text = "a lookup join sees the right side when a row is handled"
            yield Lint("not-exact", text)


def _joined_fields(node: Pairing) -> Fields:
    left, right = node.left.fields, node.right_fields
    if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        left = _all_nullable(left)
    if node.kind in (JoinKind.LEFT, JoinKind.FULL, JoinKind.SINGLE):
        right = _all_nullable(right)
    return left + right if node.kind.keeps_right else left


def _covers(columns: Iterable[str], keys: Keys) -> bool:
    """Whether rows that agree in the columns are one row."""
    given = frozenset(columns)
    return any(key <= given for key in keys)


def _pairs(left: Keys, right: Keys) -> Keys:
    return frozenset(one | other for one, other in product(left, right))


def _all_nullable(fields: Fields) -> Fields:
    return Fields(tuple(replace(column, type=column.type.with_nullable(True)) for column in fields))
