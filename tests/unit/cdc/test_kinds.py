"""Words of a column say what became of rows."""

import pyarrow as pa
import pytest

from pkray.cdc import with_row_kinds
from pkray.errors import ChangeRecordError, InputError


def test_words_of_other_systems_are_known():
    rows = pa.table({"op": ["i", "Update", "D", "-u", "r"], "id": [1, 2, 3, 4, 5]})
    found = with_row_kinds(rows, "op")
    assert found.column_names == ["id", "_row_kind"]
    assert found.column("_row_kind").to_pylist() == ["+I", "+U", "-D", "-U", "+I"]


def test_words_of_one_s_own_are_taken_alone():
    rows = pa.record_batch({"op": ["new", "gone"]})
    found = with_row_kinds(rows, "op", {"new": "+I", "gone": "-D"}, keep=True)
    assert found.to_pylist() == [
        {"op": "new", "_row_kind": "+I"},
        {"op": "gone", "_row_kind": "-D"},
    ]
    with pytest.raises(ChangeRecordError, match=r"row 0 .* is 'I'"):
        with_row_kinds(pa.table({"op": ["I"]}), "op", {"new": "+I"})


@pytest.mark.parametrize("word", ["X", "", None])
def test_a_word_that_says_no_kind_is_named(word):
    with pytest.raises(ChangeRecordError, match="row 1 of column 'op'") as refused:
        with_row_kinds(pa.table({"op": ["I", word]}), "op")
    assert refused.value.record == 1


@pytest.mark.parametrize(
    ("column", "words", "said"),
    [("kind", None, "is not there"), ("n", None, "must be text"), ("op", {"I": "+X"}, "'\\+X'")],
)
def test_what_holds_no_words_is_refused(column, words, said):
    with pytest.raises(InputError, match=said):
        with_row_kinds(pa.table({"op": ["I"], "n": [1]}), column, words)
