"""The pages about the package name what is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob(".design/*.md")), ROOT / ".github/CONTRIBUTING.md"]
PACKAGES = sorted((ROOT / "pkray").rglob("__init__.py"))


DEFINED = re.compile(r"^\s*(?:(?:class|def) |self\.)?(\w+)(?=\(|: |:$| = )", re.MULTILINE)


@cache
def names() -> set[str]:
    """Every name that the package defines."""
    found: set[str] = set()
    for path in (ROOT / "pkray").rglob("*.py"):
        found.update(DEFINED.findall(path.read_text()))
    return found


def quoted(path: Path) -> set[str]:
    """What stands between single backticks."""
    text = path.read_text()
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    else:
        text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_files_that_a_page_names_are_there(page):
    files = {name for name in quoted(page) if re.fullmatch(r"[\w/]+\.py", name)} - {
        "pkray/a/b.py",
        "tests/unit/a/test_b.py",
        "__init__.py",
    }
    assert {
        name for name in files if not ((ROOT / name).exists() or (ROOT / "pkray" / name).exists())
    } == set()


@pytest.mark.parametrize("page", [*PAGES, *PACKAGES], ids=named)
def test_classes_and_methods_that_a_page_names_are_there(page):
    said = {name for name in quoted(page) if re.fullmatch(r"[A-Z]\w*[a-z]\w*(\.\w+)*", name)}
    assert {name for name in said if not set(name.split(".")) <= names()} == set()


@pytest.mark.parametrize("package", PACKAGES, ids=named)
def test_modules_that_a_package_names_are_in_it(package):
    text = ast.get_docstring(ast.parse(package.read_text())) or ""
    listed = re.findall(r"\(``(\w+)``\)", text)
    folder = package.parent
    assert [
        name
        for name in listed
        if not ((folder / f"{name}.py").exists() or (folder / name).is_dir())
    ] == []


@pytest.mark.parametrize("package", PACKAGES, ids=named)
def test_a_package_says_what_it_is_for(package):
    text = ast.get_docstring(ast.parse(package.read_text())) or ""
    assert len(text.splitlines()) >= 4, "write its nouns, and how data pass through"
