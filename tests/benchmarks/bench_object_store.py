"""What users do on an object store: requests, rounds of them, and seconds at a delay.

A round is what is under way together. The store is this process's memory; every request is delayed.

python tests/benchmarks/bench_object_store.py [--delay 30]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness import parsed

from tests import object_store_operations as operations
from tests.counted_requests import RequestCounter


def main() -> None:
    options = parsed(__doc__, delay=30.0)
    counter = RequestCounter(options.delay / 1000)
    with counter.installed():
        taken = operations.everything(counter)
    print("| operation | requests | rounds | seconds |\n|---|---|---|---|")
    for name, counted in taken.items():
        print(f"| {name} | {counted.requests} | {counted.rounds} | {counted.seconds:.2f} |")


if __name__ == "__main__":
    main()
