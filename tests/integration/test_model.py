"""Random histories of tables with fixed buckets against a dict."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.integration.table_machine import TableMachine


class FixedMachine(TableMachine):
    partitioned = False

    def options(self) -> st.SearchStrategy[dict[str, str]]:
        return st.fixed_dictionaries(
            {
                "bucket": st.integers(1, 7).map(str),
                "num-sorted-run.compaction-trigger": st.integers(2, 5).map(str),
                "write-buffer-size": st.just("1 kb"),
            }
        )


class PartitionedMachine(FixedMachine):
    partitioned = True


SETTINGS = settings(
    max_examples=examples(10), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestTable = FixedMachine.TestCase
TestTable.settings = SETTINGS
TestPartitioned = PartitionedMachine.TestCase
TestPartitioned.settings = SETTINGS
