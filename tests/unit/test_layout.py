"""Unit tests lie where what they test does."""

from pathlib import Path

UNIT = Path(__file__).parent
PACKAGE = UNIT.parents[1] / "pkray"


def test_folders_are_the_packages_and_packages_themselves():
    folders = {path.parent for path in UNIT.rglob("test_*.py")}
    strange = [folder for folder in folders if not (PACKAGE / folder.relative_to(UNIT)).is_dir()]
    assert strange == []
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
