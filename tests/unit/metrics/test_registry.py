"""Series of a process: counted, read from objects, and ended."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from pkray.metrics import names
from pkray.metrics.collection import Distribution, unless_there
from pkray.metrics.metric import Metric
from pkray.metrics.registry import REGISTRY, Registry

FAILURES, RUNNING = names.TABLE_COMMIT_FAILURES_TOTAL, names.TABLE_COMPACTIONS_RUNNING


@pytest.fixture
def registry():
    return Registry()


class Compactions:
    """Counts for itself, as an owner does."""

    def __init__(self, registry, committed=0, running=0):
        self.committed, self.running = committed, running
        self.fails = False
        registry.watch(self.read)

    def read(self):
        if self.fails:
            raise RuntimeError("it is closing")
        yield names.TABLE_COMPACTIONS_TOTAL, ("db.t", "committed"), self.committed
        yield RUNNING, ("db.t",), self.running


def test_a_counter_adds_up_by_its_labels(registry):
    registry.count(FAILURES, 1, "db.a")
    registry.count(FAILURES, 2, "db.a")
    registry.count(FAILURES, 5, "db.b")
    assert registry.collect() == {FAILURES.name: {("db.a",): 3, ("db.b",): 5}}


def test_a_gauge_is_what_it_was_set_to_last(registry):
    registry.set(RUNNING, 4, "db.a")
    registry.set(RUNNING, 1, "db.a")
    assert registry.collect()[RUNNING.name] == {("db.a",): 1}


@pytest.mark.parametrize(
    ("value", "place"), [(0.0, 0), (0.001, 0), (0.0011, 1), (60.0, 13), (60.1, 14), (1e9, 14)]
)
def test_a_value_is_in_the_bucket_whose_bound_it_does_not_exceed(registry, value, place):
    registry.observe(names.LOOKUP_SECONDS, value, "db.a")
    counts = [0] * (len(names.LOOKUP_SECONDS.bounds) + 1)
    counts[place] = 1
    assert registry.collect()[names.LOOKUP_SECONDS.name] == {
        ("db.a",): Distribution(tuple(counts), value)
    }


def test_the_time_of_a_block_that_fails_counts_too(registry):
    with pytest.raises(ZeroDivisionError), registry.timed(names.LOOKUP_SECONDS, "db.a"):
        _ = 1 / 0
    assert sum(registry.collect()[names.LOOKUP_SECONDS.name]["db.a",].counts) == 1


def test_counts_of_several_threads_are_all_there(registry):
    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(lambda: [registry.count(FAILURES, 1, "db.a") for _ in range(5000)])
    assert registry.collect()[FAILURES.name] == {("db.a",): 20_000}


def test_what_objects_count_for_themselves_is_read_and_added_up(registry):
    owners = [Compactions(registry, 2, 1), Compactions(registry, 3, 0)]
    collected = registry.collect()
    assert collected[names.TABLE_COMPACTIONS_TOTAL.name] == {("db.t", "committed"): 5}
    assert collected[RUNNING.name] == {("db.t",): 1}
    assert len(owners) == 2


def test_of_an_object_that_ends_counters_stay_and_gauges_do_not(registry):
    owner = Compactions(registry, 2, 1)
    registry.unwatch(owner.read)
    owner.committed = 7
    assert registry.collect() == {names.TABLE_COMPACTIONS_TOTAL.name: {("db.t", "committed"): 2}}


def test_an_object_that_ends_twice_counts_once(registry):
    owner = Compactions(registry, 2)
    registry.unwatch(owner.read)
    registry.unwatch(owner.read)
    assert registry.collect()[names.TABLE_COMPACTIONS_TOTAL.name] == {("db.t", "committed"): 2}


def test_an_object_is_not_kept_by_being_read(registry):
    Compactions(registry, 2)
    gc.collect()
    assert registry.collect() == {}


def test_an_object_that_cannot_be_read_leaves_the_others_there(registry):
    broken, whole = Compactions(registry, 2), Compactions(registry, 3)
    broken.fails = True
    assert registry.collect()[names.TABLE_COMPACTIONS_TOTAL.name] == {("db.t", "committed"): 3}
    assert whole.committed == 3


@pytest.mark.parametrize("table", ["db.gone", "db.gone$branch_b"])
def test_series_of_what_is_gone_end(registry, table):
    registry.count(FAILURES, 1, table)
    registry.observe(names.LOOKUP_SECONDS, 1, table)
    registry.count(FAILURES, 1, "db.there$branch_b")
    registry.forget(unless_there(["db.there"], []))
    assert registry.collect() == {FAILURES.name: {("db.there$branch_b",): 1}}


def test_series_of_queries_end_with_these(registry):
    epochs = Metric("pkray_x_total", "counter", "epochs", "X.", ("query",))
    registry.count(epochs, 1, "gone")
    registry.count(epochs, 1, "there")
    registry.forget(unless_there([], ["there"]))
    assert registry.collect() == {epochs.name: {("there",): 1}}


def test_tables_of_one_name_in_two_warehouses_are_counted_apart(registry):
    registry.of("s3://one/").count(FAILURES, 1, "db.t")
    registry.of("s3://two").count(FAILURES, 5, "db.t")
    registry.of("s3://two").observe(names.LOOKUP_SECONDS, 0.5, "db.t")
    assert registry.collect("s3://one") == {FAILURES.name: {("db.t",): 1}}
    assert registry.collect("s3://two/")[FAILURES.name] == {("db.t",): 5}


def test_what_objects_count_is_of_their_warehouse(registry):
    objects = [Compactions(registry.of(f"s3://{name}"), len(name)) for name in ("one", "three")]
    found = registry.collect("s3://three")
    assert found[names.TABLE_COMPACTIONS_TOTAL.name] == {("db.t", "committed"): 5}
    for each in objects:
        registry.of("s3://one").unwatch(each.read)
    assert registry.collect("s3://three") == {}


def test_the_memory_of_a_process_counts_for_each_of_its_warehouses(registry):
    registry.of("s3://one").set(names.WORKER_MEMORY_BYTES, 7, "rows")
    assert registry.collect("s3://two") == {names.WORKER_MEMORY_BYTES.name: {("rows",): 7}}


def test_a_process_of_one_warehouse_gives_all_that_it_counts(registry):
    registry.of("s3://one").count(FAILURES, 1, "db.t")
    assert registry.collect() == {FAILURES.name: {("db.t",): 1}}


def test_the_process_says_when_it_began_and_what_memory_it_takes():
    collected = REGISTRY.collect()
    assert collected["pkray_worker_start_time_seconds"][()] > 1e9
    assert collected["pkray_worker_memory_bytes"]["process",] > 1 << 20


def test_importing_pkray_loads_no_web_stack_and_no_client_of_prometheus():
    code = (
        "import sys, pkray.api.catalog, pkray.cli.app, pkray.metrics.registry; "
        "print([n for n in ('prometheus_client', 'starlette', 'uvicorn', 'opentelemetry') "
        "if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
