"""Unit tests lie where what they test does."""

from pathlib import Path

UNIT = Path(__file__).parent
PACKAGE = UNIT.parents[1] / "pkray"


def test_folders_are_the_packages_and_packages_themselves():
    folders = {path.parent for path in UNIT.rglob("test_*.py")}
    strange = [folder for folder in folders if not (PACKAGE / folder.relative_to(UNIT)).is_dir()]
    assert strange == []
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_tests_are_named_by_the_module_or_package_that_they_test():
    """``test_c.py`` for ``c.py`` or ``c/``; where one is not enough ``test_c_aspect.py``."""
    tests = [path for path in UNIT.rglob("test_*.py") if path.parent != UNIT]
    strange = [str(path.relative_to(UNIT)) for path in tests if not _mirrors(path)]
    assert strange == []


def _mirrors(path: Path) -> bool:
    folder = PACKAGE / path.parent.relative_to(UNIT)
    words = path.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    return any((folder / f"{name}.py").exists() or (folder / name).is_dir() for name in names)
