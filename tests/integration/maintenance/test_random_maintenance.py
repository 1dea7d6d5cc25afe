"""Everything that changes a table's history, in random order, against plain Python."""

import random

import pytest
from column_steps import ColumnSteps
from history_steps import HistorySteps
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from maintained_table import COMPLETE
from row_steps import RowSteps

from tests.effort import examples

WEIGHTS = {
    "write": 4,
    "write_and_commit": 8,
    "commit": 4,
    "commit_full": 1,
    "abort": 1,
    "close_writer": 1,
    "compact": 2,
    "compact_dedicated": 1,
    "create_tag": 4,
    "delete_tag": 2,
    "create_branch": 3,
    "delete_branch": 1,
    "fast_forward": 2,
    "rollback": 2,
    "rollback_to_tag": 2,
    "expire": 4,
    "follow": 4,
    "drop_consumer": 1,
    "drop_partition": 1,
    "overwrite": 2,
    "add_column": 1,
    "drop_column": 1,
    "rename_column": 1,
    "widen_column": 1,
    "move_column": 1,
    "rescale": 1,
    "reopen": 1,
    "clean": 2,
    "read_with_rust": 1,
}
OPS = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
STEPS = st.lists(
    st.tuples(st.sampled_from(OPS), st.integers(0, 2**32 - 1)), min_size=10, max_size=30
)


class RandomTable(RowSteps, ColumnSteps, HistorySteps):
    """Goes through steps, each with the seed of what it chooses."""

    def run(self, steps: list[tuple[str, int]]) -> None:
        for what, seed in steps:
            self.rng = random.Random(seed)
            self.line = self.main
            if self.branches and self.rng.random() < 0.3:
                self.line = self.branches[self.rng.choice(sorted(self.branches))]
            self.side = int(self.rng.random() < 0.35)
            self.log.append(f"{what} {self.line.name} {self.side}")
            getattr(self, what)()
            self.check(every=False)
        self.reopen()
        self.check(every=True)


def options(rng: random.Random) -> dict[str, str]:
    engine = rng.choice(["deduplicate"] * 3 + ["partial-update", "aggregation", "first-row"])
    producer = rng.choice(["none", "none", "input", "lookup", "full-compaction"])
    if engine == "first-row" and producer in ("input", "full-compaction"):
        producer = "lookup"
    found = {"bucket": str(rng.randrange(1, 3)), "changelog-producer": producer}
    found["manifest.compression"] = "none"  # for fastavro
    found["num-sorted-run.compaction-trigger"] = rng.choice(["2", "3", "5"])
    if engine != "deduplicate":
        found["merge-engine"] = engine
    if engine == "partial-update":
        found["partial-update.remove-record-on-delete"] = "true"
    if engine == "aggregation":
        found["fields.n.aggregate-function"] = "sum"
        found["aggregation.remove-record-on-delete"] = "true"
    if engine != "first-row" and producer != "full-compaction" and rng.random() < 0.3:
        found["deletion-vectors.enabled"] = "true"
    elif engine != "first-row" and rng.random() < 0.2:
        found["write-only"] = "true"
    if producer not in COMPLETE and rng.random() < 0.5:
        found["streaming-read-overwrite"] = "true"
    if rng.random() < 0.4:
        found |= {"changelog.num-retained.max": "30", "changelog.num-retained.min": "20"}
    if rng.random() < 0.3:
        found |= {"snapshot.num-retained.max": "4", "snapshot.num-retained.min": "2"}
    if rng.random() < 0.3:
        found["manifest.merge-min-count"] = "3"
    return found


@pytest.fixture(autouse=True)
def no_commits_by_themselves(monkeypatch):
    """On a slow machine compactions would be committed between two steps."""
    monkeypatch.setattr("pkray.service.coordinator.coordinator._COMMIT_SECONDS", 3600.0)


@settings(
    max_examples=examples(4),
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32 - 1), steps=STEPS)
def test_random_maintenance(seed: int, steps: list[tuple[str, int]]) -> None:
    table = RandomTable(options(random.Random(seed)))
    try:
        table.run(steps)
    finally:
        table.close()
