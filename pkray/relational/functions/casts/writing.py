"""Values as text, as Spark writes them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import spread
from pkray.columns.keys import list_parts
from pkray.schema.types import DataType

_WIDTH = {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}
_TWO_DIGITS = {pa.float32(): 1e-43, pa.float64(): 1e-322}
"""Floats below have neighbours so far away that two digits are enough for each."""
_WIDTHS = {"s": 19, "ms": 23, "us": 26, "ns": 29}


def write(array: pa.Array, kind: DataType) -> pa.Array:
    """Write values of a type as text."""
    if kind.root in _WIDTH:
        return write_floats(array)
    if kind.root == "DECIMAL":
        return _decimals(array)
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return _timestamps(array)
    if kind.root == "TIME":
        return _without_zeros(array.cast(pa.string()))
    if kind.is_nested:
        return _nested(array, kind)
    texts = array.cast(pa.string())
    return _with_plus(texts, len("2020-01-01")) if kind.root == "DATE" else texts


def _with_plus(texts: pa.Array, width: int) -> pa.Array:
    """Write a plus before years of more than four digits, with which texts are longer."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    return texts if longest <= width else pc.replace_substring_regex(texts, r"^(\d{5})", r"+\1")


def _nested(array: pa.Array, kind: DataType) -> pa.Array:
    """Write ``[1, null]``, ``{1, a}`` of a ROW and ``{a -> 1}`` of a MAP."""
    if kind.root == "ROW":
        fields = kind.fields or ()
        parts = [_part(array.field(i), each.type) for i, each in enumerate(fields)]
        inside = pc.binary_join_element_wise(*parts, ", ") if parts else pa.scalar("")
        texts = pc.binary_join_element_wise("{", inside, "}", "")
    else:
        texts = _of_lists(array, kind)
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))


def _of_lists(array: pa.Array, kind: DataType) -> pa.Array:
    starts, lengths, children = list_parts(array)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    taken = pa.array(spread(starts, lengths))
    types = [each for each in (kind.element, kind.key, kind.value) if each is not None]
    parts = [_part(child.take(taken), each) for child, each in zip(children, types, strict=True)]
    entries = pc.binary_join_element_wise(*parts, " -> ") if len(parts) > 1 else parts[0]
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), entries)
    ends = ("[", "]") if kind.root == "ARRAY" else ("{", "}")
    return pc.binary_join_element_wise(ends[0], pc.binary_join(lists, ", "), ends[1], "")


def _part(array: pa.Array, kind: DataType) -> pa.Array:
    return pc.fill_null(write(array, kind), "null")


def _timestamps(array: pa.Array) -> pa.Array:
    naive = array.cast(pa.timestamp(array.type.unit))
    return _without_zeros(_with_plus(naive.cast(pa.string()), _WIDTHS[array.type.unit]))


def _without_zeros(texts: pa.Array) -> pa.Array:
    """Leave out zeros at the end of fractions of seconds, and the point where nothing is left."""
    return pc.replace_substring_regex(texts, r"\.?0*$", "") if _has_point(texts) else texts


def _has_point(texts: pa.Array) -> bool:
    first = texts.drop_null()[:1]
    return len(first) > 0 and "." in first[0].as_py()


def _decimals(array: pa.Array) -> pa.Array:
    texts = array.cast(pa.string())
    if not pc.any(pc.match_substring(texts, "E")).as_py():
        return texts
    parts = pc.extract_regex(texts, r"^(?P<sign>-?)(?P<one>\d)\.?(?P<rest>\d*)E-(?P<exponent>\d+)$")
    digits = pc.binary_join_element_wise(parts.field("one"), parts.field("rest"), "")
    exponent = pc.struct_field(parts, "exponent").cast(pa.int32())
    zeros = pc.subtract(pc.fill_null(exponent, 1), 1)
    plain = pc.binary_join_element_wise(
        parts.field("sign"), "0.", pc.binary_repeat("0", zeros), digits, ""
    )
    return pc.coalesce(pc.if_else(parts.is_valid(), plain, pa.scalar(None, pa.string())), texts)


def write_floats(array: pa.Array) -> pa.Array:
    """Write floats with the fewest digits that tell them apart: ``1.0``, ``1.0E7``, ``NaN``."""
    texts = array.cast(pa.string())
    size = pc.abs(array)
    plain = pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7))
    plain = pc.or_(plain, pc.equal(size, 0.0))
    if pc.all(plain, min_count=0).as_py():
        return _with_point(texts)
    named = _named(array, texts)
    other = pc.invert(pc.or_(plain, pc.invert(pc.is_finite(array))))
    scientific = _scientific(pc.if_else(other, texts, pa.scalar(None, pa.string())))
    least = pc.and_(pc.less(size, _TWO_DIGITS[array.type]), pc.greater(size, 0.0)).fill_null(False)
    if pc.any(least).as_py():
        scientific = pc.replace_with_mask(scientific, least, _least(array.filter(least)))
    return pc.if_else(other, scientific, pc.if_else(plain, _with_point(texts), named))


def _least(array: pa.Array) -> pa.Array:
    """Write floats that one digit tells apart with the two that are nearest: ``4.9E-324``."""
    known = array.dictionary_encode()
    numbers = known.dictionary.cast(pa.float64()).to_pylist()
    texts = pa.array([f"{each:.1e}".replace("e", "E") for each in numbers], pa.string())
    return texts.take(known.indices)


def _named(array: pa.Array, texts: pa.Array) -> pa.Array:
    infinite = pc.if_else(pc.greater(array, 0.0), "Infinity", "-Infinity")
    return pc.if_else(pc.is_nan(array), "NaN", infinite)


def _with_point(texts: pa.Array) -> pa.Array:
    whole = pc.invert(pc.match_substring(texts, "."))
    return pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)


def _scientific(texts: pa.Array) -> pa.Array:
    """Turn ``12345678.9``, ``0.00015`` and ``1.5e+22`` into one digit, a point, digits and E."""
    parts = pc.extract_regex(
        texts, r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<behind>\d+))?(?:e(?P<exponent>[+-]?\d+))?$"
    )
    whole, behind = parts.field("whole"), parts.field("behind")
    power = pc.replace_substring(parts.field("exponent"), "+", "")
    power = pc.if_else(pc.equal(power, ""), "0", power).cast(pa.int32())
    digits = pc.binary_join_element_wise(whole, behind, "")
    first = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(first))
    power = pc.subtract(pc.subtract(pc.add(power, pc.utf8_length(whole)), 1), zeros)
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(first, 1), "0")
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    one = pc.utf8_slice_codeunits(first, 0, 1)
    return pc.binary_join_element_wise(
        parts.field("sign"), one, ".", rest, "E", power.cast(pa.string()), ""
    )
