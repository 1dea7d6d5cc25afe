"""Sketches: what Java wrote and united is the reference."""

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from datasketches import (
    compact_theta_sketch,
    hll_sketch,
    hll_union,
    tgt_hll_type,
    theta_union,
    update_theta_sketch,
)
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from pkray.errors import MergeError, SchemaError, UnsupportedError
from pkray.lsm.engines import merge_engine
from pkray.lsm.engines.functions.hll_image import flaw_of_hll
from tests.unit.lsm.engines.engine_samples import (
    ADD,
    BACK,
    DELETE,
    aggregated,
    aggregation,
    batch,
    in_sequence,
    merge,
    merged,
    visible,
)

# By Paimon's Java core 0.9.0: two sketches, of 1 to 3 and of 3 to 5 (rbm32: 3 to 39 and 2^32 - 1),
# and their union.
BY_JAVA = {
    "rbm32": (
        "3a300000010000000000020010000000010002000300",
        "3b3001000100002400ffff0000010003002400ffff",
        "3b3001000100002600ffff0000010001002600ffff",
    ),
    "hll_sketch": (
        "0201070c030803002bf2fb06862ff90d75816607",
        "0201070c030803007581660781bc5d067b65e608",
        "0201070c030805007581660781bc5d067b65e6082bf2fb06862ff90d",
    ),
    "theta_sketch": (
        "02030300001acc93030000000000803f15f97dcbbd86a105c397fc1281709d1eba40b3c1da06695d",
        "02030300001acc93030000000000803f40de2ee1c9db3d08bd3273724691cc14ba40b3c1da06695d",
        "02030300001acc93050000000000803f15f97dcbbd86a10540de2ee1c9db3d08bd3273724691cc14"
        "c397fc1281709d1eba40b3c1da06695d",
    ),
}
FUNCTIONS = list(BY_JAVA)
ONE, OTHER, BOTH = range(3)
HLL_4 = tgt_hll_type.HLL_4


def sample(function: str, which: int) -> bytes:
    return bytes.fromhex(BY_JAVA[function][which])


def united(function: str, *values: bytes | None, kinds: Any = None, **options: str) -> Any:
    return aggregated(function, "BYTES", *values, kinds=kinds, **options)


def hll(
    numbers: Any, lg_k: int = 12, kind: Any = tgt_hll_type.HLL_4, compact: bool = True
) -> bytes:
    sketch = hll_sketch(lg_k, kind)
    for number in numbers:
        sketch.update(number)
    return sketch.serialize_compact() if compact else sketch.serialize_updatable()


def theta(numbers: Any, lg_k: int = 12) -> bytes:
    sketch = update_theta_sketch(lg_k)
    for number in numbers:
        sketch.update(number)
    return sketch.compact().serialize()


@pytest.mark.parametrize("function", ["rbm32", "hll_sketch"])
def test_unions_are_javas_to_the_byte(function: str) -> None:
    found = united(function, sample(function, ONE), sample(function, OTHER))
    assert found == sample(function, BOTH)


def test_a_union_of_theta_sketches_holds_what_javas_does() -> None:
    found = united("theta_sketch", sample("theta_sketch", ONE), sample("theta_sketch", OTHER))
    ours, javas = map(compact_theta_sketch.deserialize, (found, sample("theta_sketch", BOTH)))
    assert list(ours) == list(javas)
    assert (ours.theta64, ours.get_seed_hash()) == (javas.theta64, javas.get_seed_hash())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_only_value_stays_as_it_is(function: str) -> None:
    unreadable = b"not looked at"
    assert united(function, unreadable) == unreadable
    assert united(function, None, unreadable, None) == unreadable
    assert united(function, None, None) is None


@pytest.mark.parametrize("function", FUNCTIONS)
def test_keys_with_none_one_and_several_values(function: str) -> None:
    schema = aggregation({"v": ("VARBINARY(500)", function)})
    one, other = sample(function, ONE), sample(function, OTHER)
    values = [(3, one), (1, None), (2, one), (1, None), (3, None), (3, other), (2, None), (4, one)]
    found = merged(schema, [(ADD, row) for row in values])
    both = united(function, one, other)
    assert found == {1: (None,), 2: (one,), 3: (both,), 4: (one,)}


@given(st.lists(st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 300)), min_size=2, max_size=5))
def test_bitmaps_hold_the_union(sets: list[set[int]]) -> None:
    found = united("rbm32", *(BitMap(numbers).serialize() for numbers in sets))
    assert set(BitMap.deserialize(found)) == set().union(*sets)


def test_theta_sketches_are_united_in_any_order() -> None:
    values = [theta(range(9_000)), theta(range(8_000, 9_500), 9), theta([]), theta(range(20_000))]
    whole = theta_union(12)
    for value in values:
        whole.update(compact_theta_sketch.deserialize(value))
    expected = whole.get_result().serialize()
    assert {united("theta_sketch", *some) for some in itertools.permutations(values)} == {expected}


def test_hll_sketches_with_registers_are_united() -> None:
    kinds = [HLL_4, tgt_hll_type.HLL_6, tgt_hll_type.HLL_8]
    values = [hll(range(n * 4_000, n * 4_000 + 9_000), kind=kind) for n, kind in enumerate(kinds)]
    whole = hll_union(12)
    for value in values:
        whole.update(hll_sketch.deserialize(value))
    found = hll_sketch.deserialize(united("hll_sketch", *values))
    assert found.tgt_type == HLL_4
    assert found.get_estimate() == pytest.approx(whole.get_estimate())
    assert found.get_estimate() == pytest.approx(17_000, rel=0.05)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("length", [0, 1, 7, 12])
def test_bytes_that_are_no_sketch_are_named(function: str, length: int) -> None:
    value = sample(function, ONE)
    with pytest.raises(MergeError, match=rf"'v'.*'{function}'.* no .*(sketch|Roaring)") as caught:
        united(function, value, value[:length])
    assert caught.value.field == "v"
    assert caught.value.function == function


def test_a_bitmap_with_values_out_of_order_is_named() -> None:
    value = sample("rbm32", ONE)
    with pytest.raises(MergeError, match=r"'v'.*RoaringBitmap"):
        united("rbm32", value, value[:-6] + bytes.fromhex("030001000200"))


def test_a_theta_sketch_still_open_to_updates_is_refused() -> None:
    # Family 2 is that of Java's UpdateSketch.
    value = sample("theta_sketch", ONE)
    with pytest.raises(MergeError, match=r"'v'.*compact theta sketch.*type mismatch"):
        united("theta_sketch", value, value[:2] + b"\x02" + value[3:])


IMAGES = [
    hll(range(count), lg_k, kind, compact)
    for count in (0, 1, 7, 8, 60, 20_000)
    for lg_k in (4, 8, 10)
    for kind in (HLL_4, tgt_hll_type.HLL_6, tgt_hll_type.HLL_8)
    for compact in (True, False)
]


def test_hll_sketches_have_no_flaw() -> None:
    assert [flaw_of_hll(image) for image in IMAGES] == [None] * len(IMAGES)


def test_damaged_hll_sketches_are_refused_or_united() -> None:
    """The library crashes at some of these if it is not kept from them."""
    chance = random.Random(7)
    refused = 0
    for _ in range(500):
        image = bytearray(chance.choice(IMAGES))
        for _ in range(chance.choice([1, 1, 3])):
            place = chance.randrange(chance.choice([min(48, len(image)), len(image)]))
            image[place] = chance.choice([0, 255, chance.randrange(256)])
        image = image[: chance.choice([len(image)] * 4 + [chance.randrange(len(image) + 1)])]
        try:
            united("hll_sketch", chance.choice(IMAGES), bytes(image))
        except MergeError:
            refused += 1
    assert 100 < refused < 500


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_is_taken_back_from_a_sketch(function: str) -> None:
    one, other = sample(function, ONE), sample(function, OTHER)
    for kind in (BACK, DELETE):
        with pytest.raises(MergeError, match=r"'v'.*'fields\.v\.ignore-retract'"):
            united(function, one, other, kinds=[ADD, kind])
    ignored = {"fields.v.ignore-retract": "true"}
    assert united(function, one, other, kinds=[ADD, BACK], **ignored) == one


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("data_type", ["STRING", "BINARY(8)", "INT"])
def test_sketches_are_bytes(function: str, data_type: str) -> None:
    with pytest.raises(SchemaError, match=f"'v' is .*{function}.*VARBINARY or BYTES"):
        merge_engine(aggregation({"v": (data_type, function)}))


def test_sketches_in_a_sequence_group() -> None:
    values = [(2, theta([1, 2])), (1, theta([3])), (None, theta([4])), (3, theta([2, 5]))]
    rows = [(ADD, (1, *value)) for value in values]
    assert merged(in_sequence("BYTES", "theta_sketch"), rows) == {1: (3, theta([1, 2, 3, 5]))}


def test_64_bit_bitmaps_are_not_supported() -> None:
    with pytest.raises(UnsupportedError, match=r"rbm64.*'v'.*Roaring64Bitmap"):
        aggregation({"v": ("BYTES", "rbm64")})


def test_slices_of_columns_are_united() -> None:
    schema = aggregation({"v": ("BYTES", "rbm32")})
    rows = [(ADD, (number % 2, BitMap([number]).serialize())) for number in range(8)]
    found = visible(merge(schema, batch(schema, rows).slice(2, 5)))
    sets = {key: set(BitMap.deserialize(value)) for key, (value,) in found.items()}
    assert sets == {0: {2, 4, 6}, 1: {3, 5}}
    assert batch(schema, rows).column("v").type == pa.binary()
