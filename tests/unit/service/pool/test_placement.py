"""Parts are spread over nodes and workers, those of a table near each other."""

import random
from collections import Counter

import pytest

from pkray.service.pool.parts import Part
from pkray.service.pool.placement import Placement

TWO_NODES = {0: "a", 1: "a", 2: "b", 3: "b"}


def filled(nodes, tables: int, parts: int = 3) -> Placement:
    placement = Placement(nodes, {})
    for table in range(tables):
        for index in range(-1, parts - 1):
            part = Part(f"t{table}", index)
            placement = Placement(nodes, {**placement.given, part: placement.best(part)})
    return placement


def test_parts_of_a_table_are_on_one_node_and_apart_on_it():
    placement = filled(TWO_NODES, 1, parts=2)
    assert len({TWO_NODES[at] for at in placement.given.values()}) == 1
    assert len(set(placement.given.values())) == 2


def test_tables_are_spread_over_nodes_and_workers():
    placement = filled(TWO_NODES, 8)
    loads = [placement.loads[worker] for worker in TWO_NODES]
    assert sum(loads) == 24
    assert max(loads) - min(loads) <= 2


def test_a_table_that_would_overload_a_node_is_spread():
    placement = filled(TWO_NODES, 1, parts=20)
    assert Counter(TWO_NODES[at] for at in placement.given.values())["b"] >= 8


def test_a_node_that_joins_gets_its_share_and_nothing_moves_after_that():
    given = filled({0: "a", 1: "a"}, 8).given
    placement = Placement(TWO_NODES, dict(given))
    moved = list(placement.misplaced(100))
    loads = [placement.loads[worker] for worker in TWO_NODES]
    assert len(moved) == len(set(moved)) <= 14
    assert max(loads) - min(loads) <= 3
    assert list(Placement(TWO_NODES, placement.given).misplaced(100)) == []


@pytest.mark.parametrize("seed", range(20))
def test_moves_end_wherever_parts_were(seed):
    chance = random.Random(seed)
    nodes = {worker: chance.choice("abc") for worker in range(chance.randint(1, 6))}
    given = {
        Part(f"t{table}", index): chance.randint(0, 7) for table in range(6) for index in range(4)
    }
    names = [f"q{number}{share}" for number in range(5) for share in ("", "/1")]
    works = frozenset(Part(name, 0) for name in names)
    given |= {work: chance.randint(0, 7) for work in sorted(works)}
    for _ in range(len(given) * 4):
        placement = Placement(nodes, given, works)
        if not list(placement.misplaced(3)):
            break
        given = placement.given
    assert list(Placement(nodes, given, works).misplaced(3)) == []
    assert set(given.values()) <= set(nodes)


def test_only_so_many_are_moved_at_a_time():
    placement = Placement({0: "a", 1: "b"}, {Part("t", index): 0 for index in range(10)})
    assert len(list(placement.misplaced(2))) == 2


def test_what_is_on_a_worker_that_may_have_none_is_moved():
    placement = Placement({1: "a"}, {Part("t", 0): 0, Part("t", 1): 1})
    assert list(placement.misplaced(9)) == [Part("t", 0)]


def test_work_is_apart_from_work():
    works = frozenset(Part(name, 0) for name in ("q", "q/1", "r"))
    placement = Placement({0: "a", 1: "a", 2: "b"}, {Part("q", 0): 0, Part("t", 0): 1}, works)
    assert placement.best(Part("q/1", 0)) == 2


def test_work_is_moved_before_parts_of_tables():
    tables = {Part(f"a{each}", 0): 0 for each in range(20)}
    works = {Part(f"q{each}", 0): 0 for each in range(4)}
    placement = Placement({0: "a", 1: "a"}, {**tables, **works}, frozenset(works))
    assert set(placement.misplaced(2)) <= set(works)
    assert Counter(at for part, at in placement.given.items() if part in works) == {0: 2, 1: 2}
