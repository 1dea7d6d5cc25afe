"""Runs one epoch of a continuous query, and prints its peak memory.

    python tests/integration/relational/continuous_peak.py QUERY ROWS N

The query is over a source ``t`` of so many rows, each with an ``id`` and ``n``. The peak is of
resident memory beyond what was there before, in bytes; with it comes the result, as JSON.
"""

import json
import sys
from pathlib import Path

from pkray.relational import changelog, query
from tests.integration.relational.memory_peak import resident
from tests.unit.relational.continuous.histories import Continuous


def main(text: str, rows: int, n: int) -> None:
    source = changelog({"id": "INT", "n": "INT"}, mode="all", name="t")
    run = Continuous(query(text, t=source), {"t": source})
    run.push("t", [{"id": 0, "n": 1}])
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    run.push("t", [{"id": each, "n": n} for each in range(1, rows + 1)])
    print(json.dumps({"result": list(run.content), "peak": resident("VmHWM") - before}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
