"""Plain values of each type to draw from: a few that meet often, and the extremes."""

import random
import struct
from typing import Any

from pkray.schema.types import DataType

_TINY = 2.0**-149
_TEXTS = ("", "a", "b", "a,b", "b,,c", " ", "żółw", "a longer text than fits a slot")
_BLOBS = ("", "00", "ff", "61626364", "00" * 20)
_MOMENTS = ([0, 0], [1, 0], [1_700_000_000_123, 456_789], [253_402_300_799_999, 999_999])
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


class Samples:
    """Draws plain values.

    Args:
        equal: none that the Java core does not find equal to itself: NaN, arrays with nulls.
    """

    def __init__(self, chance: random.Random, *, equal: bool) -> None:
        self._chance = chance
        self._equal = equal

    def value(
        self, kind: DataType, nulls: float = 0.2, *, small: bool = False, plain: bool = False
    ) -> Any:
        """One value; null with this probability.

        Args:
            small: a number whose sums stay within its type.
            plain: of floating point numbers none that compares in a way of its own.
        """
        if self._chance.random() < nulls:
            return None
        if kind.is_nested:
            return self._nested(kind)
        extreme = not small and self._chance.random() < 0.15
        return self._scalar(kind, extreme, plain)

    def _nested(self, kind: DataType) -> Any:
        length = self._chance.choice([0, 1, 1, 2, 3])
        if kind.root == "ROW":
            # The Java core takes a ROW of nulls for null.
            parts = [self.value(field.type, 0.2) for field in kind.fields or ()]
            return parts if any(part is not None for part in parts) else [0, *parts[1:]]
        if kind.root == "ARRAY":
            # The Java core fails at merging lists with null rows.
            nulls = 0 if self._equal or kind.element.root == "ROW" else 0.1
            return [self.value(kind.element, nulls) for _ in range(length)]
        keys = {self._scalar(kind.key, False, True) for _ in range(length)}
        return [[key, self.value(kind.value, 0.1)] for key in sorted(keys)]

    def _scalar(self, kind: DataType, extreme: bool, plain: bool) -> Any:
        pick = self._chance.choice
        few = pick([-3, -1, 0, 1, 2, 7])
        root = kind.root
        match root:
            case "BOOLEAN":
                return pick([False, True])
            case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
                bound = 1 << (_BITS[root] - 1)
                return pick([-bound, bound - 1]) if extreme else few
            case "FLOAT" | "DOUBLE":
                return _bits(self._floating(few, extreme, plain, single=root == "FLOAT"))
            case "DECIMAL":
                return self._decimal(kind, few, extreme)
            case "CHAR" | "VARCHAR" | "STRING":
                return pick(_TEXTS)
            case "BINARY":
                return pick(_BLOBS)[:2].ljust(2 * (kind.length or 1), "0")
            case "VARBINARY" | "BYTES":
                return pick(_BLOBS)
            case "DATE":
                return pick([-719162, 2932896]) if extreme else few
            case "TIME":
                return pick([0, 1000, 86_399_000]) + (1 if kind.precision else 0) * pick([0, 7])
        return self._moment(kind, extreme)

    def _floating(self, few: int, extreme: bool, plain: bool, *, single: bool) -> float:
        if not extreme:
            return few / self._chance.choice([1, 2, 8])
        largest = 2.0**127 if single else 1e308
        values = [largest, -largest, _TINY]
        if not plain:
            values += [float("inf"), float("-inf"), -0.0] + [float("nan")] * (not self._equal)
        return self._chance.choice(values)

    def _decimal(self, kind: DataType, few: int, extreme: bool) -> str:
        one = 10 ** (kind.scale or 0)
        unscaled = few * one + self._chance.choice([0, 0, one // 2])
        if extreme:
            unscaled = self._chance.choice([-1, 1]) * (10 ** (kind.precision or 0) - 1)
        digits = str(abs(unscaled)).zfill((kind.scale or 0) + 1)
        sign = "-" if unscaled < 0 else ""
        return f"{sign}{digits[: -(kind.scale or 0)]}.{digits[-(kind.scale or 0) :]}"

    def _moment(self, kind: DataType, extreme: bool) -> list[int]:
        precision = kind.precision or 0
        choices = list(_MOMENTS[:3])
        if extreme and precision <= 6:
            # Arrow's nanoseconds do not reach these years, and the Java core cannot read those
            # before the epoch that it writes.
            choices = [_MOMENTS[3], [-1000, 0], [-62_135_596_800_000, 0]]
        millis, above = self._chance.choice(choices)
        step = 10 ** (9 - precision)
        nanos = (millis * 10**6 + above) // step * step
        return list(divmod(nanos, 10**6))


def _bits(value: float) -> str:
    return struct.pack(">d", value).hex()
