"""Queries whose processes are killed with SIGKILL and stopped with SIGSTOP, at random."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.lives_of_processes import Fault, Life
from tests.faults.processes import Processes

STEPS = 6


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes("tests.faults.lives_of_processes:Serving") as begun:
        yield begun


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(1), id="1 life"),
        *(
            pytest.param(range(first, first + 20), id=f"20 from {first}", marks=pytest.mark.slow)
            for first in range(0, 200, 20)
        ),
    ],
)
def test_a_result_is_right_whatever_becomes_of_processes(
    seeds: range, processes: Processes, tmp_path: Path, survived: Callable[[str], None]
) -> None:
    counts: Counter[str] = Counter()
    wrong: dict[int, str] = {}
    for seed in seeds:
        folder = tmp_path / f"life-{seed}"
        folder.mkdir()
        life = Life(seed, folder, processes, counts)
        try:
            life.live(STEPS)
        except Fault as fault:
            wrong[seed] = f"{fault} after {', '.join(life.history)}"
    said = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    survived(f"processes: {len(seeds) - len(wrong)} of {len(seeds)} lives were right; {said}")
    assert not wrong, "\n".join(f"seed {seed}: {text}" for seed, text in sorted(wrong.items()))
