"""Random tests obey the effort and play the same examples in each quick run, samples take in what
they can, and what begins first is there."""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import LONGEST, TOGETHER
from tests.effort import EFFORT, representatives

ROOT = Path(__file__).parents[2]


def numbers_of_examples() -> Iterator[tuple[Path, ast.expr]]:
    for path in ROOT.glob("tests/**/*.py"):
        text = path.read_text()
        if "max_examples" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.keyword) and node.arg == "max_examples":
                    yield path, node.value


def test_each_number_of_examples_obeys_the_effort():
    for path, value in numbers_of_examples():
        assert isinstance(value, ast.Call), f"{path}:{value.lineno}: give examples(few)"
        assert ast.unparse(value.func) == "examples", f"{path}:{value.lineno}: give examples(few)"


@pytest.mark.skipif(EFFORT > 1, reason="a greater effort plays others")
def test_a_quick_run_plays_the_same_examples_whatever_is_imported(tmp_path, monkeypatch):
    def played() -> list[list[int]]:
        examples: list[list[int]] = []

        @given(st.lists(st.integers(0, 1 << 60), min_size=20))
        def look(numbers: list[int]) -> None:
            examples.append(numbers)

        look()
        return examples

    before = played()
    module = tmp_path / "with_constants.py"
    module.write_text(f"CONSTANTS = {[number * 100_003 for number in range(2, 900)]}")
    spec = importlib.util.spec_from_file_location("with_constants", module)
    monkeypatch.setitem(sys.modules, "with_constants", importlib.util.module_from_spec(spec))
    assert played() == before


def test_what_begins_first_is_there():
    for place in [*TOGETHER, *LONGEST]:
        assert place in TOGETHER.values() or (ROOT / place).exists(), place


def test_representatives_take_in_each_value_of_each_argument():
    cases = {
        f"{kind}-{on}-{seed}": {"kind": kind, "on": on, "seed": seed}
        for kind in "abcdefg"
        for on in "uvwxyz"
        for seed in "01"
    }
    chosen = [cases[name] for name in representatives(cases, 7)]
    assert len(chosen) == 7
    assert {each["kind"] for each in chosen} == set("abcdefg")
    assert {each["on"] for each in chosen} == set("uvwxyz")
    assert {each["seed"] for each in chosen} == set("01")


def test_representatives_are_all_where_there_are_few():
    cases = {"a": {"x": "1"}, "b": {"x": "1"}}
    assert representatives(cases, 3) == {"a", "b"}


def test_representatives_stay_when_cases_are_added():
    cases = {str(number): {"x": str(number)} for number in range(40)}
    before = representatives({name: cases[name] for name in list(cases)[:30]}, 10)
    assert len(before & representatives(cases, 10)) >= 5
