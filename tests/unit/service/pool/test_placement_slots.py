"""A worker a processor, while nodes come and go and keepers begin anew."""

from collections import Counter

from pkray.service.pool.placement import Slots

TWO = {"a": 2, "b": 2}


def fitted(processors, numbers=(), known=None) -> Slots:
    slots = Slots(numbers)
    slots.fit(processors, known or {})
    return slots


def test_each_processor_has_a_worker_on_its_node():
    slots = fitted(TWO)
    assert Counter(slots.nodes.values()) == TWO
    slots.fit(TWO, {})
    assert len(slots.nodes) == 4


def test_a_node_that_joins_gets_workers_of_its_own():
    slots = fitted(TWO)
    slots.fit({**TWO, "c": 1}, slots.nodes)
    assert Counter(slots.nodes.values()) == {**TWO, "c": 1}


def test_workers_of_a_lost_node_are_surplus_where_others_live():
    slots = fitted(TWO)
    on_a = [number for number, node in slots.nodes.items() if node == "a"]
    known = dict.fromkeys(slots.nodes, "b")  # those of the lost node have begun anew there
    slots.fit({"b": 2}, known)
    assert len(slots.surplus(known)) == 2
    for number in slots.surplus(known):
        slots.remove(number)
    assert Counter(slots.nodes.values()) == {"b": 2}
    assert len(on_a) == 2


def test_workers_are_not_surplus_where_no_other_one_lives():
    slots = fitted({"a": 2})
    slots.fit({}, dict.fromkeys(slots.nodes, "head"))
    assert slots.surplus(slots.nodes) == []


def test_nodes_that_come_and_go_do_not_add_workers_for_ever():
    slots = fitted({"n0": 2})
    for each in range(1, 20):
        slots.fit({f"n{each - 1}": 2, f"n{each}": 2}, dict(slots.nodes))
        known = dict.fromkeys(slots.nodes, f"n{each}")
        slots.fit({f"n{each}": 2}, known)
        for number in slots.surplus(known):
            slots.remove(number)
    assert sorted(slots.nodes) <= [0, 1, 2, 3]
    assert len(slots.nodes) == 2


def test_a_new_keeper_waits_for_the_workers_that_there_are_and_learns_where_they_are():
    slots = fitted(TWO, numbers=(2, 3, 4, 5))
    assert sorted(slots.nodes) == [2, 3, 4, 5]
    known = {2: "b", 3: "b", 4: "a", 5: "a"}
    slots.fit(TWO, known)
    assert slots.nodes == known
    assert slots.surplus(known) == []
