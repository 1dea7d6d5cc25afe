"""How long single commits wait where several processes commit to one table at once.

Each process upserts 1,000 random keys a commit, one commit after another, through a local runtime
of its own. Goal: the 99th percentile of a commit's time is at most 20 times the median.

python tests/benchmarks/bench_fairness.py [--processes 4] [--seconds 30]
"""

import logging
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection

import numpy as np
import pyarrow as pa
from harness import parsed

import pkray

COMMIT_ROWS, KEYS = 1_000, 1_000_000
GOAL_RATIO = 20


def main() -> None:
    options = parsed(__doc__, processes=4, seconds=30.0)
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        with pkray.connect(folder) as catalog:
            schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
            catalog.create_table("bench.t", schema, primary_keys=["id"], options={"bucket": "2"})
        answers = []
        for number in range(options.processes):
            answer, end = spawn.Pipe(duplex=False)
            answers.append(answer)
            spawn.Process(target=commit_often, args=(folder, number, options.seconds, end)).start()
        times = [answer.recv() for answer in answers]
    for number, taken in enumerate(times):
        print(f"process {number}: {described(taken)}")
    together = np.concatenate(times)
    ratio = np.percentile(together, 99) / np.median(together)
    print(f"together: {described(together)}; 99 % / median {ratio:.1f} (goal {GOAL_RATIO})")


def commit_often(folder: str, number: int, seconds: float, answer: Connection) -> None:
    """Send the seconds that each commit took."""
    logging.disable(logging.WARNING)
    random, taken = np.random.default_rng(number), []
    with pkray.connect(folder) as catalog:
        with catalog.load_table("bench.t").open_writer(f"job-{number}") as writer:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                ids = random.integers(0, KEYS, COMMIT_ROWS)
                writer.upsert(pa.table({"id": ids, "v": ids}))
                begin = time.perf_counter()
                writer.commit()
                taken.append(time.perf_counter() - begin)
    answer.send(np.array(taken))


def described(taken: np.ndarray) -> str:
    median, most = np.median(taken) * 1000, np.percentile(taken, 99) * 1000
    return (
        f"{len(taken)} commits, median {median:.0f} ms, 99 % {most:.0f} ms, "
        f"longest {taken.max() * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
