"""What the Java core of Paimon 0.9.0 did with primary-key tables, and pkray does too."""

from pathlib import Path

import pytest
from golden_case import GoldenCase

_CASES = [GoldenCase(path) for path in sorted((Path(__file__).parent / "data").glob("*.json"))]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_golden_case(case: GoldenCase, tmp_path: Path) -> None:
    assert case.differences(str(tmp_path)) == []
