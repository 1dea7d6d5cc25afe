"""Functions that turn text into bytes of a charset, or of a format, and back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, QueryError
from pkray.relational.functions import signatures
from pkray.relational.functions.coercion import BYTES, STRING, is_null_literal
from pkray.relational.functions.function import Family, Kernel, Parameter, Resolver, Written
from pkray.relational.functions.text.encodings import from_base64, from_hex
from pkray.relational.functions.text.slices import bytes_of, code_points, is_ascii, spelled
from pkray.relational.functions.values import as_array, by_distinct
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import DataType

TEXT = Family("text")

_CHARSETS = {
    **{name: name for name in ("US-ASCII", "ISO-8859-1", "UTF-8", "UTF-16", "UTF-16BE")},
    "UTF-16LE": "UTF-16LE",
    "UTF-32": "UTF-32",
    "UTF8": "UTF-8",
    "ASCII": "US-ASCII",
}
_BIG_ENDS, _LITTLE_ENDS = b"\xfe\xff", b"\xff\xfe"
"""What begins text in UTF-16 and says in which order bytes are."""


def _in_charset(parameter: Parameter, gives: DataType) -> Resolver:
    def resolve(written: Written) -> Expression:
        call = written._replace(name=written.name.removesuffix("_text"))
        _, said = call.exactly(2)
        value = parameter.taken(call, 0)
        if is_null_literal(said):
            return Literal(gives, None)
        charset = signatures.constant(call.name, said, "the charset")
        known = _CHARSETS.get(str(charset).upper())
        if known is None:
            raise QueryError(
                f"{call.name} knows no charset {charset!r}; it knows {', '.join(_CHARSETS)}",
                function=call.name,
            )
        kind = gives.with_nullable(value.type.nullable)
        return Call(kind, written.name, (value, signatures.text_literal(known)))

    return resolve


def _charset(call: Call) -> str:
    """Give the charset; plans of earlier versions have it as it was written."""
    return _CHARSETS[str(getattr(call.arguments[1], "value", "")).upper()]


def _cannot(name: str, texts: pa.Array, wrong: Any, charset: str) -> EvaluationError:
    row = int(np.flatnonzero(np.asarray(wrong))[0])
    value = texts[row].as_py()
    return EvaluationError(
        f"{name}({value!r}, {charset!r}): {charset} has no such "
        f"{'characters' if name == 'encode' else 'bytes'}",
        function=name,
        row=row,
    )


def _by_array(compute: Callable[[Call, pa.Array], pa.Array]) -> Kernel:
    return lambda call, values, rows: compute(call, as_array(values[0], rows))


def _encoded(call: Call, texts: pa.Array) -> pa.Array:
    charset = _charset(call)
    if charset == "UTF-8" or (charset in ("US-ASCII", "ISO-8859-1") and is_ascii(texts)):
        return texts.cast(pa.binary())
    points, starts = code_points(texts)
    if charset in ("US-ASCII", "ISO-8859-1"):
        wrong = points > (127 if charset == "US-ASCII" else 255)
        if wrong.any():
            row = np.searchsorted(starts, np.flatnonzero(wrong)[:1], "right") - 1
            raise _cannot("encode", texts, np.arange(len(texts)) == row, charset)
        return _of_bytes(points.astype(np.uint8).tobytes(), starts, texts)
    said = points.astype("<u4").tobytes().decode("utf-32-le")
    if charset == "UTF-32":
        return _of_bytes(said.encode("utf-32-be"), starts * 4, texts)
    units = np.concatenate(([0], np.cumsum(1 + (points > 0xFFFF))))[starts]
    codec = "utf-16-le" if charset == "UTF-16LE" else "utf-16-be"
    found = _of_bytes(said.encode(codec), units * 2, texts)
    if charset != "UTF-16":
        return found
    begun = pc.binary_join_element_wise(pa.scalar(_BIG_ENDS), found, pa.scalar(b""))
    return pc.if_else(pc.greater(pc.binary_length(found), 0), begun, found)


def _of_bytes(data: bytes, offsets: Any, texts: pa.Array) -> pa.Array:
    ends = pa.py_buffer(offsets.astype(np.int32))
    made = pa.Array.from_buffers(pa.binary(), len(texts), [None, ends, pa.py_buffer(data)])
    return pc.if_else(texts.is_valid(), made, pa.scalar(None, pa.binary()))


def _decoded(call: Call, data: pa.Array) -> pa.Array:
    charset = _charset(call)
    if charset == "UTF-8":
        try:
            return data.cast(pa.string())
        except pa.ArrowInvalid:
            wrong = [not _is_utf8(each) for each in data.to_pylist()]
            raise _cannot("decode", data, wrong, charset) from None
    if charset in ("US-ASCII", "ISO-8859-1"):
        whole = pc.fill_null(data, b"")
        offsets, raw = bytes_of(whole)
        points = raw[offsets[0] : offsets[-1]].astype(np.int64)
        starts = offsets - offsets[0]
        if charset == "US-ASCII" and (points > 127).any():
            row = np.searchsorted(starts, np.flatnonzero(points > 127)[:1], "right") - 1
            raise _cannot("decode", data, np.arange(len(data)) == row, charset)
        return spelled(points, np.ones(len(points), np.int64), starts, data)

    def read(value: bytes) -> str:
        codec, plain = _codec(charset, value)
        try:
            return plain.decode(codec)
        except UnicodeDecodeError:
            raise _cannot("decode", pa.array([value]), [True], charset) from None

    return by_distinct(data, read, pa.string(), len(data))


def _is_utf8(data: bytes | None) -> bool:
    try:
        return data is None or data.decode() is not None
    except UnicodeDecodeError:
        return False


def _codec(charset: str, value: bytes) -> tuple[str, bytes]:
    """Give Python's codec, and the bytes without those that say their order."""
    if charset in ("UTF-16BE", "UTF-16LE"):
        return charset, value
    wide = charset == "UTF-32"
    big, little = b"\0\0" * wide + _BIG_ENDS, _LITTLE_ENDS + b"\0\0" * wide
    if value.startswith(little):
        return f"{charset}LE", value[len(little) :]
    return f"{charset}BE", value.removeprefix(big)


TEXT.add(
    "encode(text, charset) -> BYTES",
    "Give the bytes of text in a charset such as 'UTF-16LE'.",
    _in_charset(signatures.text, BYTES),
    _by_array(_encoded),
)
TEXT.add(
    "",
    "Read bytes as text.",
    _in_charset(signatures.binary, STRING),
    _by_array(_decoded),
    spark=lambda call, arguments: f"decode({', '.join(arguments)})",
    name="decode_text",
)


# Formats

_FORMATS = {"HEX": "hex", "UTF-8": "utf-8", "UTF8": "utf-8", "BASE64": "base64"}
_FOUR = "[A-Za-z0-9+/]"
_BASE64 = rf"\A(?:{_FOUR}{{4}})*(?:{_FOUR}{{2}}(?:==)?|{_FOUR}{{3}}=?)?\z"


def _reads_bytes(call: Written) -> Expression:
    _, *given = call.between(1, 2)
    value = signatures.text.taken(call, 0)
    said = signatures.constant(call.name, given[0], "the format") if given else "hex"
    form = None if said is None else _FORMATS.get(str(said).upper())
    trying = call.name == "try_to_binary"
    if form is None and said is not None and not trying:
        raise QueryError(
            f"{call.name} knows hex, utf-8 and base64, not {said!r}", function=call.name
        )
    if form is None:
        return Literal(BYTES, None)
    kind = BYTES.with_nullable(trying or value.type.nullable)
    return Call(kind, call.name, (value, signatures.text_literal(form)))


def _bytes_read(call: Call, texts: pa.Array) -> pa.Array:
    form = str(getattr(call.arguments[1], "value", ""))
    if form == "utf-8":
        return texts.cast(pa.binary())
    if form == "hex":
        found = from_hex(texts)
    else:
        bare = pc.replace_substring_regex(texts, r"[ \t\n\x0b\f\r]", "")
        good = pc.match_substring_regex(bare, _BASE64)
        found = from_base64(pc.if_else(good, bare, pa.scalar(None, pa.string())))
    wrong = pc.and_(texts.is_valid(), found.is_null())
    if call.function == "to_binary" and pc.any(wrong).as_py():
        row = pc.index(wrong, True).as_py()
        raise EvaluationError(
            f"to_binary({texts[row].as_py()!r}, {form!r}): the text is not written so; "
            "try_to_binary gives NULL for it",
            function="to_binary",
            row=row,
        )
    return found


for _name, _else in (("to_binary", ""), ("try_to_binary", "; NULL where it is not written so")):
    TEXT.add(
        f"{_name}(text [, 'hex' | 'utf-8' | 'base64']) -> BYTES",
        f"Read bytes that are written in a format{_else}.",
        _reads_bytes,
        _by_array(_bytes_read),
        fallible=_name == "to_binary",
    )
