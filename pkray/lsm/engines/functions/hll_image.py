"""Whether bytes are an HLL sketch: the library takes their word for it, and may crash.

An image is a preamble of 4-byte words, then *coupons* (a 26-bit hash below a 6-bit value) while the
sketch is small, else one register a slot. Bytes of the preamble: its words, version, family, lgK,
lg of the coupon array, flags, the number of coupons or the smallest register, and the mode with the
register size. All is little-endian.

Source: Apache DataSketches, ``org.apache.datasketches.hll.PreambleUtil``.
"""

import struct

import numpy as np

_VERSION, _FAMILY = 1, 7
_COMPACT = 8
_LIST, _SET, _REGISTERS = 0, 1, 2
_WORDS = {_LIST: 2, _SET: 3, _REGISTERS: 10}
_MIN_LG_K, _MAX_LG_K, _MIN_LG_K_OF_SET = 4, 21, 8
_LIST_ROOM = 8
_LARGEST = 63
_NIBBLES, _SIXES, _BYTES = 0, 1, 2
_BITS = {_NIBBLES: 4, _SIXES: 6, _BYTES: 8}
_EXCEPTION = 15
"""A nibble that says: the register is among the coupons that follow the registers."""

_BYTE = np.arange(256)
_ZEROS = (_BYTE & 15 == 0).astype(np.int64) + (_BYTE >> 4 == 0)
_EXCEPTIONS = (_BYTE & 15 == _EXCEPTION).astype(np.int64) + (_BYTE >> 4 == _EXCEPTION)


def flaw_of_hll(image: bytes) -> str | None:
    """Say what is wrong with an image of an HLL sketch; None: nothing that could do harm."""
    if len(image) < 8:
        return f"it ends after {len(image)} bytes"
    words, version, family, lg_k, lg_array, flags, count, modes = image[:8]
    mode, size = modes & 3, modes >> 2 & 3
    if (version, family) != (_VERSION, _FAMILY) or words != _WORDS.get(mode) or size not in _BITS:
        return f"it begins with {image[:8].hex(' ')}"
    if not _MIN_LG_K <= lg_k <= _MAX_LG_K:
        return f"its lgK is {lg_k}"
    if len(image) < 4 * words:
        return f"it ends after {len(image)} bytes"
    compact = bool(flags & _COMPACT)
    if mode == _REGISTERS:
        return _flaw_of_registers(image, lg_k, lg_array, size, compact)
    room = _LIST_ROOM
    if mode == _SET:
        (count,) = struct.unpack_from("<I", image, 8)
        room = 3 << lg_k >> 5
        if lg_k < _MIN_LG_K_OF_SET or lg_array > lg_k - 3:
            return f"its lgK is {lg_k}, with 2^{lg_array} coupons"
    if count > room:
        return f"it has {count} coupons"
    if mode == _LIST:
        lg_array = 3
    return _flaw_of_coupons(_coupons(image, 4 * words, count, lg_array, compact), count)


def _flaw_of_registers(
    image: bytes, lg_k: int, lg_array: int, size: int, compact: bool
) -> str | None:
    smallest = image[6]
    *sums, at_smallest, exceptions = struct.unpack_from("<dddII", image, 8)
    slots = 1 << lg_k
    length = (slots * _BITS[size] >> 3) + (size == _SIXES)
    if len(image) < 40 + length:
        return f"it ends after {len(image)} bytes"
    if not np.isfinite(sums).all() or smallest > _LARGEST or at_smallest > slots:
        return "its sums are no numbers"
    registers = np.frombuffer(image, np.uint8, length, 40)
    if size != _NIBBLES:
        too_large = size == _BYTES and registers.max() > _LARGEST
        return "it has registers past 63" if too_large or exceptions or smallest else None
    found = np.bincount(registers, minlength=256)
    if found @ _ZEROS != at_smallest or found @ _EXCEPTIONS != exceptions:
        return "its registers are not as many as it says"
    if not exceptions:
        return None
    if lg_array > lg_k:
        return f"its lgK is {lg_k}, with 2^{lg_array} coupons"
    coupons = _coupons(image, 40 + length, exceptions, lg_array, compact)
    flaw = _flaw_of_coupons(coupons, exceptions)
    if flaw or coupons is None:
        return flaw
    coupons = coupons[coupons != 0]
    slot = coupons & (slots - 1)
    nibbles = registers[slot >> 1] >> (4 * (slot & 1)) & 15
    if (
        len(np.unique(slot)) < exceptions
        or (nibbles != _EXCEPTION).any()
        or (coupons >> 26 < smallest + _EXCEPTION).any()
    ):
        return "its coupons do not fit its registers"
    return None


def _coupons(
    image: bytes, start: int, count: int, lg_array: int, compact: bool
) -> np.ndarray | None:
    """Read the coupons; None where the image ends before them."""
    places = count if compact else 1 << lg_array
    if len(image) < start + 4 * places:
        return None
    return np.frombuffer(image, "<u4", places, start)


def _flaw_of_coupons(coupons: np.ndarray | None, count: int) -> str | None:
    if coupons is None:
        return f"it ends before its {count} coupons"
    if np.count_nonzero(coupons) != count:
        return "its coupons are not as many as it says"
    return None
