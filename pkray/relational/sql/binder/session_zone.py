"""Times on the wall clock of the session's zone.

A TIMESTAMP_LTZ is an instant; what reads or writes its day and hour does so in the session's zone.
The functions know UTC alone, so that a plan for another zone shifts instants to the wall clock
before such a function (``local_time``), and back after it (``instant_at``). A plan that was shifted
stays as it is when it is shifted again.
"""

from dataclasses import replace

from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import TIMESTAMP, TIMESTAMP_LTZ, cast_to
from pkray.relational.functions.function import resolve, typed_call
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan.expressions import Call, Case, Cast, Expression, Literal
from pkray.relational.plan.nodes import Node, Scan, WatermarkAssign
from pkray.schema.types import STRINGS, DataType

UTC = "UTC"
_DAY = 86_400_000_000
_HAS_ZONE = r":\d+(\.\d+)?\s*[A-Za-z+-]"
"""Text of a time that says its zone."""
_OF_CLOCKS = frozenset(
    (
        *("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear"),
        *("hour", "minute", "second", "dayofweek_iso", "yearofweek", "millisecond"),
        *("microsecond", "second_fraction", "date_trunc", "date_ceil", "date_format"),
        *("months_between", "timestampdiff", "plus_interval", "flink_text"),
    )
)
"""Functions of a TIMESTAMP_LTZ that look at its day or hour."""
_MAKERS = ("parse_timestamp", "try_parse_timestamp", "make_timestamp", "try_make_timestamp")
_NOW = ("current_date", "current_time", "localtimestamp")


def in_session_zone(plan: Node, zone: str, dialect: Dialect) -> Node:
    """Let a plan compute with the wall clock of a zone."""
    if zone == UTC:
        return plan
    shift = _Shift(zone, dialect)

    def change(node: Node) -> Node:
        return node if isinstance(node, Scan | WatermarkAssign) else node.with_expressions(shift.of)

    return plan.transform(change)


def value_in_session_zone(value: Expression, zone: str, dialect: Dialect) -> Expression:
    """Let one expression compute with the wall clock of a zone."""
    return value if zone == UTC else _Shift(zone, dialect).of(value)


class _Shift:
    def __init__(self, zone: str, dialect: Dialect) -> None:
        self.zone = text_literal(zone)
        self.dialect = dialect

    def of(self, value: Expression) -> Expression:
        """Shift what an expression computes with."""
        if isinstance(value, Call) and value.function == "instant_at":
            made, *rest = value.arguments
            return value.with_operands((self._inside(made), *rest))
        value = self._inside(value)
        if isinstance(value, Cast):
            return self._cast(value)
        return self._call(value) if isinstance(value, Call) else value

    def _inside(self, value: Expression) -> Expression:
        operands = value.operands()
        changed = tuple(self.of(each) for each in operands)
        return value if changed == operands else value.with_operands(changed)

    def _local(self, value: Expression) -> Expression:
        wide = cast_to(value, TIMESTAMP_LTZ)
        kind = replace(TIMESTAMP, precision=value.type.precision)
        return cast_to(typed_call("local_time", wide, self.zone), kind)

    def _instant(self, value: Expression, kind: DataType) -> Expression:
        return cast_to(typed_call("instant_at", value, self.zone), kind)

    def _cast(self, value: Cast) -> Expression:
        source, target = value.operand.type.root, value.type.root
        if source == "TIMESTAMP_LTZ" and target in (*STRINGS, "DATE", "TIME", "TIMESTAMP"):
            return replace(value, operand=self._local(value.operand))
        if target != "TIMESTAMP_LTZ" or source not in (*STRINGS, "DATE", "TIME", "TIMESTAMP"):
            return value
        naive = replace(value, type=replace(TIMESTAMP, nullable=value.type.nullable))
        made = self._instant(naive, value.type)
        if source not in STRINGS:
            return made
        said = resolve("rlike", (value.operand, text_literal(_HAS_ZONE)), Dialect.SPARK)
        own = typed_call("instant_at", value, text_literal(UTC))
        return Case(value.type, ((said, cast_to(own, value.type)),), made)

    def _call(self, value: Call) -> Expression:
        if value.function in _NOW:
            now = self._local(typed_call("current_timestamp"))
            return cast_to(now, value.type)
        if value.function in _MAKERS and not _says_zone(value):
            return self._instant(value, value.type)
        if value.function == "plus_interval" and self.dialect is Dialect.SPARK:
            value = self._days_first(value)
        instants = [each for each in value.arguments if each.type.root == "TIMESTAMP_LTZ"]
        if value.function not in _OF_CLOCKS or not instants or self._is_exact(value):
            return value
        arguments = tuple(
            self._local(each) if each.type.root == "TIMESTAMP_LTZ" else each
            for each in value.arguments
        )
        if value.type.root != "TIMESTAMP_LTZ":
            return Call(value.type, value.function, arguments)
        made = Call(replace(value.type, root="TIMESTAMP"), value.function, arguments)
        return self._instant(made, value.type)

    def _days_first(self, value: Call) -> Call:
        """Add the days of an interval by the clock, and its hours after that, exactly."""
        time, months, micros = value.arguments
        if time.type.root != "TIMESTAMP_LTZ" or not isinstance(micros, Literal):
            return value
        length = micros.value or 0
        if length % _DAY == 0:
            return value
        rest = length % _DAY - (_DAY if length < 0 else 0)
        if length != rest or not _is_zero(months):
            time = self._call(_added(value, time, months, replace(micros, value=length - rest)))
        none = Literal(months.type.with_nullable(False), 0)
        return _added(value, time, none, replace(micros, value=rest))

    def _is_exact(self, value: Call) -> bool:
        """Whether a function of instants does not look at a clock."""
        if value.function == "timestampdiff":
            return isinstance(value.arguments[1], Literal)
        if value.function != "plus_interval":
            return False
        months, micros = value.arguments[1:]
        whole = isinstance(micros, Literal) and (micros.value or 0) % _DAY == 0
        moves_days = self.dialect is Dialect.SPARK and whole
        return _is_zero(months) and not moves_days


def _added(value: Call, *arguments: Expression) -> Call:
    return Call(value.type, value.function, arguments)


def _is_zero(value: Expression) -> bool:
    return isinstance(value, Literal) and not value.value


def _says_zone(value: Call) -> bool:
    """Whether a pattern reads the zone."""
    pattern = value.arguments[1] if "parse" in value.function else None
    if not isinstance(pattern, Literal):
        return False
    return any(letter in str(pattern.value) for letter in "XxZzVO")
