from threading import Barrier, Thread

from pkray.relational.plan.cached_value import cached_value


class Leaf:
    value = 1


class Upper:
    def __init__(self, below, barrier=None):
        self.below, self.barrier = below, barrier

    @cached_value
    def value(self):
        if self.barrier is not None:
            self.barrier.wait(30)
        return self.below.value + 1


class Other(Upper):
    @cached_value
    def value(self):
        if self.barrier is not None:
            self.barrier.wait(30)
        return self.below.value + 1


def test_a_value_is_computed_once():
    one = Upper(Leaf)
    assert one.value == 2
    one.below = None
    assert one.value == 2


def test_threads_that_need_each_others_kinds_do_not_wait_for_each_other():
    barrier = Barrier(2)
    nodes = [Upper(Other(Leaf), barrier), Other(Upper(Leaf), barrier)]
    found = []
    threads = [
        Thread(target=lambda node=node: found.append(node.value), daemon=True) for node in nodes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [3, 3]
