"""Runs a folder of golden cases: ``python tests/golden_tables/run.py FOLDER``.

Prints a line a failing case, then ``N passed, N failed``; exits with 1 if any failed.
"""

import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from golden_case import GoldenCase


def run(path: Path) -> list[str]:
    """What differs in one case; an error that pkray does not raise on purpose is a difference."""
    try:
        with tempfile.TemporaryDirectory(prefix="golden-") as folder:
            return GoldenCase(path).differences(folder)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"]


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python tests/golden_tables/run.py FOLDER")
    paths = sorted(Path(sys.argv[1]).glob("*.json"))
    failed = 0
    for path in paths:
        differences = run(path)
        if differences:
            failed += 1
            line = " ".join("; ".join(differences[:3]).split())
            print(f"FAIL {path.stem}: {line}", flush=True)
    print(f"{len(paths) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
