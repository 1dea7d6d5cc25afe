"""Play lives by their numbers: ``python -m tests.faults.lives.run 0 5000``."""

import argparse
import faulthandler
import time
from collections import defaultdict
from collections.abc import Sequence

from tests.faults.lives.life import stage
from tests.faults.lives.planted import PLANTS, planted
from tests.faults.lives.random_lives import LEFT_OUT, Script, live, play, shorter

HANGS_SECONDS = 300


def main() -> int:
    """Play them, and print what was wrong with the first ones of a kind; give how many were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--shown", type=int, default=1, help="failures of a kind that are printed")
    parser.add_argument("--whole", action="store_true", help="print them as they were")
    parser.add_argument("--without", nargs="*", default=[], help="moves, overwrites")
    parser.add_argument("--planted", nargs="*", default=None, help="hunt planted faults, or all")
    said = parser.parse_args()
    LEFT_OUT.update(said.without)
    if said.planted is not None:
        return hunt(said.planted or [*PLANTS], said.first, said.last)
    kinds: dict[str, list[int]] = defaultdict(list)
    begun, busy, steps = time.monotonic(), time.process_time(), 0
    with stage():
        for seed in range(said.first, said.last):
            faulthandler.dump_traceback_later(HANGS_SECONDS)
            lived = live(seed)
            steps += len(lived.steps)
            if lived.wrong:
                kinds[lived.kind].append(seed)
                if len(kinds[lived.kind]) <= said.shown:
                    print(lived if said.whole else shorter(lived), flush=True)
    faulthandler.cancel_dump_traceback_later()
    wrong = sum(map(len, kinds.values()))
    print(
        f"{said.last - said.first} lives of {steps} steps, {wrong} wrong, in "
        f"{time.monotonic() - begun:.0f} s ({time.process_time() - busy:.0f} s of a processor)"
    )
    for kind, seeds in sorted(kinds.items(), key=lambda each: -len(each[1])):
        print(f"{len(seeds):5} {kind} {seeds[:10]}")
    return wrong


def hunt(names: Sequence[str], first: int, last: int) -> int:
    """Play lives with planted faults until each is found; give how many are not."""
    lost = 0
    with stage():
        for name in names:
            found = _found(name, range(first, last))
            lost += found is None
            after = f"found after {found[0]} lives by\n{found[1]}" if found else "not found"
            print(f"{name!r} is {after}", flush=True)
    return lost


def _found(name: str, seeds: Sequence[int]) -> tuple[int, Script] | None:
    for count, seed in enumerate(seeds, 1):
        with planted(name):
            lived = live(seed)
        if lived.wrong and not play(lived.setting, lived.steps):
            with planted(name):
                return count, shorter(lived)
    return None


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
