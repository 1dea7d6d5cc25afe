"""Canal's events in JSON: rows listed as ``data``, what changed of them as ``old``, all as text."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.cdc.old_values import OldValuesReader, Words
from pkray.cdc.readings import DATE_TEXTS, TEXTS, TIME_TEXTS, Handling, Reading, timestamp_texts
from pkray.cdc.row_changes import Target
from pkray.errors import InputError, UnsupportedError
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType

_WORDS = Words(
    inserts=("INSERT",),
    update="UPDATE",
    delete="DELETE",
    passed_over=("CREATE", "ALTER", "CINDEX", "DINDEX", "QUERY", "XACOMMIT", "XAROLLBACK"),
    emptying=("TRUNCATE", "ERASE", "RENAME"),
)
_NUMBER = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"
_TRUTHS = constants.texts(["0", "1", "false", "true"])
_WIDE_LEAD = 0xC3
"""First byte of the characters 192 to 255 in UTF-8; those from 256 on have greater ones."""


def _cast(kind: DataType) -> Reading:
    def decode(texts: pa.Array) -> pa.Array:
        is_number = pc.match_substring_regex(texts, _NUMBER)
        if not pc.all(is_number, min_count=0).as_py():
            bad = texts.filter(pc.invert(is_number))[0].as_py()
            raise InputError(f"{bad!r} is no number, and no {kind}")
        return texts.cast(kind.arrow)

    return Reading(pa.string(), decode)


def _truths(texts: pa.Array) -> pa.Array:
    codes = pc.index_in(texts, value_set=_TRUTHS)
    bad = pc.and_(texts.is_valid(), codes.is_null())
    if pc.any(bad).as_py():
        raise InputError(f"{texts.filter(bad)[0].as_py()!r} is no BOOLEAN: 0 and 1 are")
    return pc.equal(pc.bit_wise_and(codes, 1), 1)


def _latin(texts: pa.Array) -> pa.Array:
    """Take text whose characters are bytes, as Canal writes binary values."""
    texts = pa.concat_arrays([pc.fill_null(texts, ""), pa.array([""])])
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[: len(texts) + 1]
    raw = np.frombuffer(data, np.uint8)[: bounds[-1]] if data is not None else np.zeros(0, np.uint8)
    if (raw > _WIDE_LEAD).any():
        raise InputError("a binary value has characters that are no bytes (ISO-8859-1)")
    is_lead = raw >= 0xC0
    after_lead = np.concatenate(([False], is_lead[:-1])) if len(raw) else is_lead
    high = np.concatenate(([0], raw[:-1])).astype(np.uint8) if len(raw) else raw
    plain = np.where(after_lead, (high & 3) << 6 | (raw & 63), raw).astype(np.uint8)[~is_lead]
    kept = np.concatenate(([0], np.cumsum(~is_lead)))[bounds].astype(np.int32)
    buffers = [None, pa.py_buffer(kept), pa.py_buffer(plain)]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers)[:-1]


def _bytes(texts: pa.Array) -> pa.Array:
    return pc.if_else(texts.is_valid(), _latin(texts), pa.scalar(None, pa.binary()))


def _readings(kind: DataType) -> Sequence[Reading]:
    root = kind.root
    if root in INTEGERS or root in ("FLOAT", "DOUBLE", "DECIMAL"):
        return [_cast(DataType("DOUBLE") if root == "FLOAT" else kind)]
    if root == "BOOLEAN":
        return [Reading(pa.string(), _truths)]
    if root in STRINGS:
        return TEXTS
    if root in BINARIES:
        return [Reading(pa.string(), _bytes)]
    if root == "DATE":
        return [DATE_TEXTS]
    if root == "TIME":
        return [TIME_TEXTS]
    if root in TIMESTAMPS:
        return [timestamp_texts(kind)]
    raise UnsupportedError(
        f"{kind} is not read from canal-json, whose values are text: give the table a STRING",
        type=str(kind),
    )


def canal_json(target: Target, handling: Handling) -> OldValuesReader:
    """Make the reader of Canal's events.

    Times are texts; a MySQL TIMESTAMP is of no zone there, and no TIMESTAMP_LTZ.
    """
    readings = {name: _readings(kind) for name, kind in target.values.items()}
    return OldValuesReader(target, readings, _WORDS, listed=True, unit_of_ts="ms")
