"""Members of JSON objects are found by their places."""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pkray.cdc.json_index import QUOTED_NUMBER, JsonIndex

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[]:, é'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"\\{:,'), inner, max_size=3)
    ),
    max_leaves=8,
)
_records = st.dictionaries(st.sampled_from(["before", "after", "op"]), _values, max_size=3)


@given(st.lists(_records, min_size=1, max_size=5))
def test_values_are_cut_out_as_they_stand(records):
    index = JsonIndex(pa.array([json.dumps(each) for each in records]))
    found = index.values("after").to_pylist()
    assert [None if text is None else json.loads(text) for text in found] == [
        each.get("after") for each in records
    ]
    assert [text is None for text in found] == ["after" not in each for each in records]


@given(st.lists(_records, min_size=1, max_size=5))
def test_members_of_an_object_are_those_that_it_has(records):
    members = JsonIndex(pa.array([json.dumps(each) for each in records])).members("after")
    objects = [each["after"] for each in records if isinstance(each.get("after"), dict)]
    found = [[] for _ in range(members.objects)]
    for owner, name in zip(members.owner, members.names.to_pylist(), strict=True):
        found[owner].append(name)
    assert found == [list(each) for each in objects]


def test_members_of_listed_objects_are_of_each():
    index = JsonIndex(pa.array(['{"old":[{"a":1},{"b":null,"c":{"a":2}}]}', '{"old":[{"a":3}]}']))
    assert index.members("old", 3).has(["a", "b"]).tolist() == [
        [True, False],
        [False, True],
        [True, False],
    ]


def test_texts_of_a_slice_are_its_own():
    texts = pa.array(['{"a":1}', '{"b":{"c":2}}', '{"d":3}']).slice(1, 1)
    assert JsonIndex(texts).values("b").to_pylist() == ['{"c":2}']


def _quoted(value):
    if isinstance(value, list):
        return [_quoted(each) for each in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{QUOTED_NUMBER}{json.dumps(value)}" if is_number else value


_lists = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('1e"\\[]:, é'),
    lambda inner: st.lists(inner, max_size=3),
)  # fmt: skip
_images = st.dictionaries(st.sampled_from(["v", "w", "v1"]), _lists, max_size=3)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["before", "after", "v"]), _images, max_size=3),
        min_size=1,
        max_size=5,
    )
)
def test_numbers_of_one_member_become_texts(records):
    texts = pa.array([json.dumps(each) for each in records])
    quoted = JsonIndex(texts).with_quoted_numbers(["before", "after"], "v")
    assert [json.loads(each) for each in quoted.to_pylist()] == [
        {
            top: {
                name: _quoted(value) if name == "v" and top != "v" else value
                for name, value in image.items()
            }
            for top, image in record.items()
        }
        for record in records
    ]
