"""What the benchmarks share: the workload, and measuring a piece of work in its own process."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("a", pa.int64()),
        ("b", pa.float64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us")),
    ]
)

WARM_BYTES = 5 << 30
"""More than any engine takes in memory and writes to files."""


def parsed(doc: str | None, **defaults: Any) -> argparse.Namespace:
    """Read the options of a benchmark, each of the type of its default; False is a switch.

    ``--one`` names a measurement that `in_turn` has run in a process of its own.
    """
    parser = argparse.ArgumentParser(description=doc)
    for name, default in defaults.items():
        how = {"action": "store_true"} if default is False else {"type": type(default)}
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, **how)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def batches(rows: int, keys: int, batch_rows: int, seed: int = 7) -> Iterator[pa.Table]:
    """Uniform upserts: BIGINT key, BIGINT, DOUBLE, a 16-character string, a timestamp."""
    random = np.random.default_rng(seed)
    for start in range(0, rows, batch_rows):
        n = min(batch_rows, rows - start)
        letters = random.integers(97, 123, n * 16, dtype=np.uint8)
        strings = pa.StringArray.from_buffers(
            n, pa.py_buffer(np.arange(0, n * 16 + 1, 16, dtype=np.int32)), pa.py_buffer(letters)
        )
        columns = [
            pa.array(random.integers(0, keys, n)),
            pa.array(random.integers(-(1 << 40), 1 << 40, n)),
            pa.array(random.random(n)),
            strings,
            pa.array(1_700_000_000_000_000 + start + np.arange(n), pa.timestamp("us")),
        ]
        yield pa.table(columns, schema=SCHEMA)


@dataclass
class Measured:
    """One run: processor and wall seconds, and the peak memory beyond what was there before."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    result: object = None


def warm_up(*modules: str) -> None:
    """Import what a run uses, so that no engine's start is counted as its work."""
    import importlib

    for module in ("pkray.api.catalog", "pyarrow.parquet", *modules):
        importlib.import_module(module)
    pa.array([1])  # Arrow imports pandas with the first list it is given


def warm_memory() -> None:
    """Have the machine find memory before the clock starts.

    A virtual machine gives memory that lies idle back to its host, and waits for each page that
    it takes again: whoever came after a pause, or wrote more, would pay for that.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    touch = (
        "import mmap, sys; mmap.mmap(-1, int(sys.argv[1]), "
        "flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)"
    )
    size = min(WARM_BYTES, free // 2)
    subprocess.run([sys.executable, "-S", "-c", touch, str(size)], check=True)


def measure(work: Callable[[], object]) -> Measured:
    """Run work; its children count when they have ended."""
    warm_memory()
    before_memory = resident_bytes()
    reset_peak()
    cpu, wall = cpu_seconds(), time.perf_counter()
    result = work()
    return Measured(
        cpu_seconds() - cpu, time.perf_counter() - wall, peak_bytes() - before_memory, result
    )


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + children.ru_utime + children.ru_stime


def resident_bytes() -> int:
    return _status("VmRSS")


def peak_bytes() -> int:
    return _status("VmHWM")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{name} is not in /proc/self/status")


def in_own_process(script: str, *arguments: str) -> Measured:
    """Run ``python script arguments`` and read the `Measured` it reports last."""
    command = [sys.executable, script, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def in_turn(script: str, names: Iterable[str], runs: int) -> dict[str, list[Measured]]:
    """Measure each name so often, one after another, with the options that were given."""
    found: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(runs):
        for name, measured in found.items():
            measured.append(in_own_process(script, *sys.argv[1:], "--one", name))
    return found


def medians(
    script: str,
    names: Sequence[str],
    runs: int,
    of: Callable[[Measured], float] = lambda measured: measured.cpu_seconds,
) -> list[float]:
    """Measure in turn; give the median of each, of processor seconds if nothing else is said."""
    found = in_turn(script, names, runs)
    return [statistics.median(map(of, found[name])) for name in names]


def report(measured: Measured) -> None:
    """For `in_own_process`."""
    print(json.dumps(asdict(measured)), flush=True)
