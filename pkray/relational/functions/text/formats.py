"""Numbers and other values written, and read, by a format."""

import re
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion, function
from pkray.relational.functions.function import Family, Value, Written, wrong_argument
from pkray.relational.functions.signatures import text, text_literal
from pkray.relational.functions.text.java_formats import Specifier, pieces, specifier_of
from pkray.relational.functions.values import by_distinct
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import DataType

TEXT = Family("text")

# format_string


def _format_string(call: Written) -> Expression:
    said, *values = call.between(1, None)
    form = said.value if isinstance(said, Literal) else None
    if not isinstance(form, str):
        raise UnsupportedError("the format of format_string must be a constant")
    parts: list[Expression] = []
    for piece in pieces(form):
        if isinstance(piece, str):
            parts.append(text_literal(piece))
            continue
        specifier, place = piece
        if place is None or not 0 <= place < len(values):
            raise QueryError(f"format_string has no value for {specifier.text} of {form!r}")
        parts.append(_formatted(specifier, values[place]))
    return function.resolve("concat", tuple(parts), call.dialect) if parts else text_literal("")


def _formatted(specifier: Specifier, value: Expression) -> Expression:
    """Call what writes one value; NULL of no type may stand for a number."""
    if specifier.kind not in "sb" and coercion.is_untyped_null(value):
        value = coercion.cast_to(
            value, coercion.INT if specifier.kind in "dxoc" else coercion.DOUBLE
        )
    specifier.check(value.type.with_nullable(True))
    if specifier.kind == "s":
        value = coercion.cast_to(value, coercion.STRING)
    kind = coercion.STRING.with_nullable(False)
    return Call(kind, "format_value", (value, text_literal(specifier.text)))


def _written(call: Call, values: Sequence[Value], rows: int) -> Value:
    specifier = specifier_of(values[1].as_py())
    root = call.arguments[0].type.root
    missing = specifier.written(None, root)
    if specifier.text == "%s":
        return pc.fill_null(values[0], missing)
    found = by_distinct(values[0], lambda each: specifier.written(each, root), pa.string(), rows)
    return pc.fill_null(found, missing)


def _spark_written(call: Call, arguments: Sequence[str]) -> str:
    specifier = specifier_of(str(getattr(call.arguments[1], "value", "")))
    if call.arguments[0].type.root == "DECIMAL" and specifier.kind != "b":
        raise NotImplementedError  # Spark writes no DECIMAL by %f
    said = re.sub(r"[0-9]+\$|<", "", specifier.text)
    return f"format_string('{said}', {arguments[0]})"


TEXT.alias(
    "format_string(format, x, …) -> STRING",
    "Write values by a format such as 'row %d: %s'.",
    _format_string,
    "printf",
)
TEXT.add_inner(
    "format_value",
    "Write a value by one specifier of a format.",
    _written,
    lambda arguments: coercion.STRING.with_nullable(False),
    _spark_written,
)

# to_char and to_number

_FORMAT = re.compile(
    r"(?P<before>S|MI)?(?P<dollar>\$)?(?P<whole>[09][09,G]*)?(?P<point>[.D](?P<behind>[09]*))?"
    r"(?P<after>S|MI|PR)?",
    re.I,
)


class NumberFormat:
    """A format of numbers: ``'$999,990.00'``, ``'S099'``.

    Args:
        text: digits 0 and 9, ``,`` or ``G``, ``.`` or ``D``, ``$``, ``S``, ``MI``, ``PR``.

    Raises:
        QueryError: it is none.
    """

    def __init__(self, text: str, name: str) -> None:
        found = _FORMAT.fullmatch(text)
        parts = found.groupdict() if found else {}
        whole, behind = parts.get("whole") or "", parts.get("behind") or ""
        both = parts.get("before") and parts.get("after")
        if not found or both or not (whole or behind) or len(whole + behind) > 60:
            raise QueryError(
                f"{text!r} is no format of {name}: write digits such as '999,990.00', with $, S, "
                "MI or PR",
                function=name,
            )
        self.text = text
        self.whole = whole.upper().replace("G", ",")
        self.behind = behind
        self.dollar = bool(parts["dollar"])
        self.before = (parts["before"] or "").upper()
        self.after = (parts["after"] or "").upper()
        self.type = DataType(
            "DECIMAL",
            precision=max(len(self.whole.replace(",", "")) + len(behind), 1),
            scale=len(behind),
        )

    def written(self, value: Decimal) -> str:
        """Write a number; ``#`` for each digit where it does not fit."""
        places, count = self.whole.replace(",", ""), len(self.behind)
        digits, _, behind = f"{value.copy_abs():f}".partition(".")
        digits = digits.lstrip("0")
        if len(digits) > len(places) or behind[count:].strip("0"):
            return self._decorated(re.sub("[09]", "#", self.whole), "#" * count, value < 0)
        filled = digits.rjust(len(places), " ")
        if places.startswith("0"):
            filled = filled.replace(" ", "0")
        queue, shown = list(filled), ""
        for letter in self.whole:
            if letter == ",":
                shown += "," if shown.strip() else " "
            else:
                shown += queue.pop(0)
        return self._decorated(shown, behind[:count].ljust(count, "0"), value < 0)

    def _decorated(self, whole: str, behind: str, negative: bool) -> str:
        """Put the sign before the first digit, and a zero before a point that has nothing there."""
        digits = whole.lstrip()
        padding = " " * (len(whole) - len(digits))
        sign = {"S": "-" if negative else "+", "MI": "-" if negative else " "}.get(self.before, "")
        if negative and self.after == "PR":
            sign = "<"
        dollar = "$" if self.dollar else ""
        signed = sign.strip()
        body = padding + sign + dollar + digits if signed else sign + dollar + padding + digits
        if behind:
            body = body[:-1] + "0" if body.endswith(" ") else body
            body += "." + behind
        return body + self._after(negative)

    def _after(self, negative: bool) -> str:
        signs = {"S": "+-", "MI": " -"}.get(self.after)
        if signs:
            return signs[negative]
        if self.after != "PR":
            return ""
        return ">" if negative else "  "

    def read(self, value: str) -> Decimal | None:
        """Read a number; None where it is not written so."""
        said = value.strip()
        negative = False
        if self.after == "PR" and said.startswith("<") and said.endswith(">"):
            negative, said = True, said[1:-1]
        for place, signs in ((self.before, said[:1]), (self.after, said[-1:])):
            if place in ("S", "MI") and signs in ("+", "-") and signs:
                negative = signs == "-"
                said = said[1:] if place == self.before else said[:-1]
                break
        if self.dollar:
            if not said.startswith("$"):
                return None
            said = said[1:]
        elif said.startswith("$"):
            return None
        whole, point, behind = said.partition(".")
        if point and not self.behind and "." not in self.text and "D" not in self.text.upper():
            return None
        digits = whole.replace(",", "")
        fits = len(digits) <= len(self.whole.replace(",", "")) and len(behind) <= len(self.behind)
        if not fits or not re.fullmatch(r"\d*", digits + behind) or not digits + behind:
            return None
        if [len(each) for each in whole.split(",")[1:]] != [
            len(each) for each in self.whole.split(",")[1:]
        ][len(self.whole.split(",")) - len(whole.split(",")) :]:
            return None
        number = Decimal(f"{digits or '0'}.{behind.ljust(len(self.behind), '0')}")
        return number.copy_negate() if negative else number


def _format_of(name: str, argument: Expression) -> Literal:
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise QueryError(f"the format of {name} must be a constant", function=name)
    return argument


_AS_DECIMALS = {"STRING": (38, 18), "FLOAT": (14, 7), "DOUBLE": (30, 15)}


def _to_char(call: Written) -> Expression:
    value, said = call.exactly(2)
    form = _format_of(call.name, said)
    if value.type.root in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return function.resolve("date_format", call.arguments, call.dialect)
    if value.type.root in _AS_DECIMALS:
        precision, scale = _AS_DECIMALS[value.type.root]
        value = coercion.cast_to(value, DataType("DECIMAL", precision=precision, scale=scale))
    digits = coercion.as_decimal(value, Dialect.FLINK)
    if digits is None:
        raise wrong_argument("to_char", 0, value, "a number or a time")
    NumberFormat(form.value, "to_char")
    number = coercion.cast_to(value, digits)
    return Call(coercion.STRING.with_nullable(number.type.nullable), "to_char", (number, form))


@TEXT.infallible.kernel(
    "to_char(number | time, format) -> STRING",
    "Write a number by a format such as '999,990.00', or a time by a pattern.",
    _to_char,
    synonyms=("to_varchar",),
)
def _char(call: Call, values: Sequence[Value], rows: int) -> Value:
    form = NumberFormat(values[1].as_py(), "to_char")
    return by_distinct(values[0], form.written, pa.string(), rows)


def _reads_numbers(call: Written) -> Expression:
    _, said = call.exactly(2)
    value = text.taken(call, 0)
    form = _format_of(call.name, said)
    kind = NumberFormat(form.value, call.name).type
    nullable = call.name == "try_to_number" or value.type.nullable
    return Call(kind.with_nullable(nullable), call.name, (value, form))


def _number(call: Call, values: Sequence[Value], rows: int) -> Value:
    form = NumberFormat(values[1].as_py(), call.function)

    def read(value: str) -> Decimal | None:
        number = form.read(value)
        if number is None and call.function == "to_number":
            raise EvaluationError(
                f"to_number({value!r}, {form.text!r}): the text is not written so; try_to_number "
                "gives NULL for it",
                function="to_number",
            )
        return number

    return by_distinct(values[0], read, call.type.arrow, rows)


for _name, _else in (("to_number", ""), ("try_to_number", "; NULL where it is not written so")):
    TEXT.add(
        f"{_name}(text, format) -> DECIMAL",
        f"Read a number by a format such as '999,990.00'{_else}.",
        _reads_numbers,
        _number,
        fallible=_name == "to_number",
    )
