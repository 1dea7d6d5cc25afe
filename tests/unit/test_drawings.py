"""Drawings for notebooks: what is in them, to which size, and that every text stays text."""

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from pkray.drawings import Box, Level, bytes_text, svg_graph, svg_levels

MARKUP = "<img src=x onerror=alert(1)>&\"'"
SVG = "{http://www.w3.org/2000/svg}"


def boxes(count):
    return [Box(number, [f"operator {number}"], f"does {number}") for number in range(count)]


def places(drawn: str) -> list[tuple[float, float]]:
    """Left and top of each box."""
    return [(float(x), float(y)) for x, y in re.findall(r"translate\(([-\d.]+) ([-\d.]+)\)", drawn)]


def texts(drawn: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(drawn).iter(f"{SVG}text")]


GRAPHS = {
    "one": (1, []),
    "a chain": (4, [(0, 1), (1, 2), (2, 3)]),
    "a join": (5, [(0, 2), (1, 2), (2, 4), (3, 4)]),
    "an edge past others": (5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]),
    "twice the same source": (4, [(0, 1), (0, 2), (1, 3), (2, 3)]),
    "several results": (4, [(0, 1), (1, 2), (1, 3)]),
    "a wide union": (21, [(each, 20) for each in range(20)]),
    "apart": (3, []),
    "against the numbers": (3, [(2, 1), (1, 0)]),
}


@pytest.mark.parametrize(("count", "edges"), GRAPHS.values(), ids=GRAPHS)
def test_a_graph_has_every_operator_once_beside_the_others(count, edges):
    drawn = svg_graph(boxes(count), edges)
    assert texts(drawn) == [f"operator {number}" for number in range(count)]
    assert drawn.count("<path ") == len(edges)
    for (x, y), (other_x, other_y) in combinations(places(drawn), 2):
        assert abs(x - other_x) >= 190 or abs(y - other_y) >= 74


@pytest.mark.parametrize(("count", "edges"), GRAPHS.values(), ids=GRAPHS)
def test_a_graph_is_wholly_within_its_drawing_and_leads_down(count, edges):
    drawn = svg_graph(boxes(count), edges)
    width, height = (
        int(each) for each in re.search(r'width="(\d+)" height="(\d+)"', drawn).groups()
    )
    found = places(drawn)
    assert all(0 <= x <= width - 190 and 0 <= y <= height - 74 for x, y in found)
    assert all(found[source][1] < found[target][1] for source, target in edges)


def test_a_graph_of_nothing_is_drawn():
    assert texts(svg_graph([], [])) == []


def test_texts_of_a_graph_stay_text():
    drawn = svg_graph([Box(0, [MARKUP[:20]], MARKUP)], [])
    root = ElementTree.fromstring(drawn)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} == {
        "svg",
        "g",
        "title",
        "rect",
        "text",
    }
    assert root.find(f".//{SVG}title").text == MARKUP
    assert texts(drawn) == [MARKUP[:20]]


def test_a_long_line_is_cut_and_whole_in_the_title():
    drawn = svg_graph([Box(0, ["x" * 100], "x" * 100)], [])
    assert texts(drawn) == ["x" * 25 + "…"]
    assert "x" * 100 in drawn


def test_operators_that_work_more_are_coloured():
    busy = [Box(0, ["a"], "a", share) for share in (None, 0.0, 0.2, 0.5, 0.9)]
    fills = [
        re.search(r'fill="([^"]+)" fill-opacity', svg_graph([box], [])).group(1) for box in busy
    ]
    assert fills[:2] == ["none", "none"]
    assert len(set(fills[2:])) == 3


def test_levels_are_drawn_to_size_and_those_between_are_empty():
    drawn = svg_levels({MARKUP: [Level(0, 100, 1, 1), Level(2, 400, 4, 2)]})
    bars = [float(each.get("width")) for each in ElementTree.fromstring(drawn).iter(f"{SVG}rect")]
    assert bars == [75.0, 0.0, 300.0]
    assert texts(drawn) == [
        MARKUP,
        *("L0", "100 B, 1 rows, 1 files"),
        *("L1", "0 B, 0 rows, 0 files"),
        *("L2", "400 B, 4 rows, 2 files"),
    ]


def test_of_many_buckets_the_first_are_drawn():
    drawn = svg_levels({f"bucket {each}": [Level(0, 1, 1, 1)] for each in range(1234)})
    assert texts(drawn)[-1] == "and 1,184 more buckets"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1200, "1.2 kB"), (34_500_000, "34 MB")]
)
def test_sizes_are_written_for_people(size, text):
    assert bytes_text(size) == text
