"""Java's formats of values, such as ``%-8.2f``: one specifier, and what it makes of a value."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from pkray.errors import QueryError
from pkray.rows.decimals import EXACT
from pkray.schema.types import INTEGERS, DataType

MOST_WIDTH = 10_000
"""Wider or more precise ones are refused, so that a short query makes no endless text."""
_PIECE = re.compile(
    r"%(?:(?P<place>[0-9]+)\$)?(?P<flags>[-#+ 0,(<]*)(?P<width>[1-9][0-9]*)?"
    r"(?:\.(?P<digits>[0-9]+))?(?P<kind>[tT][a-zA-Z]|[a-zA-Z%])"
)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")
_FLAGS = {
    "s": "-", "c": "-", "b": "-", "%": "-", "n": "", "d": "-+ 0,(", "o": "-#0", "x": "-#0",
    "e": "-#+ 0(", "f": "-#+ 0,(", "g": "-+ 0,(", "a": "-#+ 0",
}  # fmt: skip


@dataclass(frozen=True)
class Specifier:
    """One specifier.

    Attributes:
        text: as it was written.
        kind: its letter, small; `capitals` tells whether it was a capital one.
        digits: after the point, or how many characters at most; None: not said.
    """

    text: str
    flags: str
    width: int
    digits: int | None
    kind: str
    capitals: bool

    def check(self, value: DataType | None) -> None:
        """Refuse what Java refuses.

        Args:
            value: what is written; None for ``%%`` and ``%n``.
        """
        if self.kind not in _FLAGS:
            remedies = {"t": "date_format", "h": "hex(hash(…))"}
            remedy = remedies.get(self.kind[:1], "%s, %d, %f, %e, %g, %x, %o, %c or %b")
            raise self._wrong(f"is not supported; write {remedy}")
        for flag in self.flags:
            if flag not in _FLAGS[self.kind]:
                raise self._wrong(f"has the flag {flag!r}, which %{self.kind} does not take")
        if len(set(self.flags)) < len(self.flags):
            raise self._wrong("has a flag twice")
        if {"-", "0"} <= set(self.flags) or {"+", " "} <= set(self.flags):
            raise self._wrong("has flags that exclude each other")
        if not self.width and {"-", "0"} & set(self.flags):
            raise self._wrong("has a flag that takes a width, and none")
        if self.digits is not None and self.kind in "cdoxn%a":
            raise self._wrong(f"has digits after a point, which %{self.kind} does not take")
        if self.width and self.kind == "n":
            raise self._wrong("has a width")
        if max(self.width, self.digits or 0) > MOST_WIDTH:
            raise self._wrong(f"is wider than {MOST_WIDTH} characters")
        root = value.root if value else ""
        if self.kind in "dox" and root not in INTEGERS:
            raise self._wrong(f"takes an integer, not {value}")
        if self.kind in "efga" and root not in _FRACTIONS:
            raise self._wrong(f"takes a FLOAT, DOUBLE or DECIMAL, not {value}")
        if self.kind == "c" and root not in INTEGERS[:3]:
            raise self._wrong(f"takes the INT code of a character, not {value}")

    def _wrong(self, problem: str) -> QueryError:
        return QueryError(f"{self.text!r} of format_string {problem}", function="format_string")

    def written(self, value: Any, root: str) -> str:
        """Write a value of a type's root; None is NULL."""
        said = self._padded(self._plain(value, root))
        return said.upper() if self.capitals else said

    def _padded(self, said: str) -> str:
        return said.ljust(self.width) if "-" in self.flags else said.rjust(self.width)

    def _plain(self, value: Any, root: str) -> str:
        if self.kind == "b":
            said = "false" if value is None or value is False else "true"
        elif value is None:
            said = "null"
        elif self.kind == "c":
            return self._character(value)
        elif self.kind in "s%n":
            said = str(value)
        elif self.kind == "d":
            return self._signed(self._grouped(str(abs(value))), value < 0)
        elif self.kind in "ox":
            return self._coded(value, root)
        else:
            return self._fraction(value)
        return said if self.digits is None else said[: self.digits]

    def _character(self, code: int) -> str:
        if not 0 <= code <= 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self._wrong(f"is given {code}, which is the code of no character")
        return chr(code)

    def _grouped(self, digits: str) -> str:
        if "," not in self.flags:
            return digits
        whole, point, behind = digits.partition(".")
        return f"{int(whole):,}{point}{behind}"

    def _signed(self, said: str, negative: bool, *, zeros: bool = True) -> str:
        """Put the sign before digits, and zeros between them up to the width."""
        ends = negative and "(" in self.flags
        sign = "(" if ends else "-" if negative else "+" if "+" in self.flags else ""
        sign = " " if " " in self.flags and not negative else sign
        room = self.width - len(sign) - ends if zeros and "0" in self.flags else 0
        return sign + said.rjust(room, "0") + ")" * ends

    def _coded(self, value: int, root: str) -> str:
        code = value & ((1 << _BITS[root]) - 1)
        digits = f"{code:o}" if self.kind == "o" else f"{code:x}"
        before = ("0" if self.kind == "o" else "0x") if "#" in self.flags else ""
        room = self.width - len(before) if "0" in self.flags else 0
        return before + digits.rjust(room, "0")

    def _fraction(self, value: float | Decimal) -> str:
        if not math.isfinite(value):
            said = "NaN" if math.isnan(value) else "Infinity"
            negative = value < 0
            return said if said == "NaN" else self._signed(said, negative, zeros=False)
        negative = math.copysign(1, value) < 0 if isinstance(value, float) else value < 0
        if self.kind == "a":
            return self._signed(_hexadecimal(abs(float(value))), negative)
        exact = (Decimal(repr(value)) if isinstance(value, float) else value).copy_abs()
        digits = 6 if self.digits is None else self.digits
        if self.kind == "g":
            return self._signed(self._general(exact, digits or 1), negative)
        if self.kind == "e":
            return self._signed(_scientific(exact, digits), negative)
        said = self._grouped(_fixed(exact, digits))
        return self._signed(said + "." * ("#" in self.flags and not digits), negative)

    def _general(self, exact: Decimal, digits: int) -> str:
        """Write so many digits: with a power of ten only where the number is very small or big."""
        if not exact:
            return self._grouped(_fixed(exact, digits - 1))
        near = EXACT.create_decimal(exact)
        power = near.adjusted()
        near = near.quantize(Decimal(1).scaleb(power - digits + 1), ROUND_HALF_UP, EXACT)
        power = near.adjusted()
        if -4 <= power < digits:
            return self._grouped(_fixed(near, digits - 1 - power))
        return _scientific(exact, digits - 1)


def _fixed(exact: Decimal, digits: int) -> str:
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _WIDE):f}"


_WIDE = EXACT.copy()
_WIDE.prec = MOST_WIDTH + 400
"""Holds a DOUBLE with as many digits after its point as are taken."""


def _scientific(exact: Decimal, digits: int) -> str:
    if exact:
        step = Decimal(1).scaleb(exact.adjusted() - digits)
        exact = exact.quantize(step, ROUND_HALF_UP, _WIDE)
    power = exact.adjusted() if exact else 0
    mantissa = exact.scaleb(-power, _WIDE) if exact else exact
    sign = "-" if power < 0 else "+"
    return f"{_fixed(mantissa, digits)}e{sign}{abs(power):02}"


def _hexadecimal(value: float) -> str:
    """Write as Java's ``Double.toHexString`` does."""
    if not value:
        return "0x0.0p0"
    least = 2.0**-1022
    if value < least:  # Java keeps the exponent of those
        whole = int(value / 2.0**-1074)
        return f"0x0.{whole:013x}".rstrip("0") + "p-1022"
    mantissa, _, power = value.hex().partition("p")
    start, _, behind = mantissa.partition(".")
    return f"{start}.{behind.rstrip('0') or '0'}p{int(power)}"


def pieces(form: str) -> Iterator[str | tuple[Specifier, int | None]]:
    """Take a format apart: text, and specifiers with the places of their values, from 0.

    Raises:
        QueryError: it is none.
    """
    place = ordinary = 0
    last: int | None = None
    while place < len(form):
        at = form.find("%", place)
        if at != place:
            yield form[place:] if at < 0 else form[place:at]
            place = len(form) if at < 0 else at
            continue
        found = _PIECE.match(form, place)
        if found is None:
            raise QueryError(
                f"{form[place : place + 10]!r} of format_string is no specifier; write %% for a "
                "percent sign",
                function="format_string",
            )
        place = found.end()
        specifier = specifier_of(found[0])
        if specifier.kind in ("%", "n"):
            specifier.check(None)
            yield specifier.written("%" if specifier.kind == "%" else "\n", "STRING")
            continue
        if "<" in found["flags"]:
            chosen = last
        elif found["place"]:
            chosen = int(found["place"]) - 1
        else:
            chosen, ordinary = ordinary, ordinary + 1
        last = chosen
        yield specifier, chosen


def specifier_of(said: str) -> Specifier:
    """Read one specifier."""
    found = _PIECE.fullmatch(said)
    assert found is not None
    kind, digits = found["kind"], found["digits"]
    return Specifier(
        said,
        found["flags"].replace("<", ""),
        int(found["width"] or 0),
        None if digits is None else int(digits),
        kind.lower(),
        kind[0] in "SCBXEGATH",
    )
