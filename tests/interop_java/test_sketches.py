"""Sketches that pkray and Paimon's Java core unite in turn."""

import itertools
import random
from typing import Any

import pytest
from datasketches import compact_theta_sketch, hll_sketch, tgt_hll_type, update_theta_sketch
from pyroaring import BitMap

from tests.interop_java.both import Both

FUNCTIONS = ["rbm32", "hll_sketch", "theta_sketch"]


def image(function: str, chance: random.Random) -> str | None:
    """The hexadecimal bytes of a sketch of a few or of many numbers."""
    if chance.random() < 0.15:
        return None
    first = chance.randrange(10_000)
    numbers = range(first, first + chance.choice([0, 1, 2, 9, 200, 3_000, 9_000]))
    if function == "rbm32":
        bitmap = BitMap(chance.sample(numbers, len(numbers) // 3) if first % 2 else numbers)
        return bitmap.serialize().hex()
    if function == "hll_sketch":
        kinds = [tgt_hll_type.HLL_4, tgt_hll_type.HLL_6, tgt_hll_type.HLL_8]
        sketch = hll_sketch(11, chance.choice(kinds))
    else:
        sketch = update_theta_sketch(chance.choice([9, 12, 13]))
    for number in numbers:
        sketch.update(number)
    if function == "hll_sketch":
        return (sketch.serialize_compact() if first % 3 else sketch.serialize_updatable()).hex()
    return sketch.compact(ordered=bool(first % 2)).serialize().hex()


def content(function: str, text: str | None) -> Any:
    """What a sketch holds and estimates.

    The libraries fill the places of the bytes that nobody reads differently.
    """
    if text is None or function == "rbm32":
        return text
    data = bytes.fromhex(text)
    if function == "theta_sketch":
        theta = compact_theta_sketch.deserialize(data)
        return theta.theta64, sorted(theta), theta.get_estimate()
    hll = hll_sketch.deserialize(data)
    estimate = f"{hll.get_estimate():.9g}"
    has_registers = data[0] == 10
    return data[:8], data[32:] if has_registers else data, estimate


def read(both: Both, function: str, reader: str) -> dict[str, Any]:
    return {key: content(function, row[1]) for key, row in both.content(reader).items()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_united_in_turn_they_are_as_if_java_united_them(
    make: Any, function: str, producer: str
) -> None:
    options = {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": function,
        "fields.v.ignore-retract": "true",
        "changelog-producer": producer,
        "num-sorted-run.compaction-trigger": "3",
    }
    both, twin = (make({"k": "INT", "v": "BYTES"}, ["k"], (), options) for _ in range(2))
    chance = random.Random(function)
    for turn, writer in zip(range(6), itertools.cycle(["pkray", "java", "pkray"]), strict=False):
        rows = [["+I", chance.randrange(5), image(function, chance)] for _ in range(8)]
        if turn:
            rows.append(["-U", 0, image(function, chance)])
        both.write(writer, rows, full_compact=turn in (2, 5))
        twin.write("java", rows, full_compact=turn in (2, 5), stay=True)
        expected = read(twin, function, "java")
        assert read(both, function, "java") == expected
        assert read(both, function, "pkray") == expected
    assert any(expected.values())


def test_a_coarser_hll_sketch_makes_the_union_as_coarse(make: Any) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "hll_sketch"}
    both = make({"k": "INT", "v": "VARBINARY(10000)"}, ["k"], (), options)
    for number, lg_k in enumerate([12, 10, 11]):
        sketch = hll_sketch(lg_k)
        for value in range(number * 2_000, number * 2_000 + 5_000):
            sketch.update(value)
        row = ["+I", 1, sketch.serialize_compact().hex()]
        both.write("pkray", [row])
    ((_, united),) = both.check().values()
    assert hll_sketch.deserialize(bytes.fromhex(united)).lg_config_k == 10
