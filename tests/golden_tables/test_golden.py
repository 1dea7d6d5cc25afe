"""What the Java core of Paimon 0.9.0 did with primary-key tables, and pkray does too."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_case import GoldenCase

_OTHER_ENGINES = ("partial-update", "aggregation", "first-row")
_CASES = sorted((Path(__file__).parent / "data").glob("*.json"))


@pytest.mark.parametrize("path", _CASES, ids=lambda path: path.stem)
def test_golden_case(path: Path, tmp_path: Path) -> None:
    assert GoldenCase(path).differences(str(tmp_path)) == []
