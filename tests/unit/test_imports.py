"""Modules of the package import each other in one direction."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in (ROOT / "pkray").rglob("*.py")}


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file names: those imported in functions and for types alone, too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            inner = [f"{node.module}.{each.name}" for each in node.names]
            yield from (name if name in MODULES else node.module for name in inner)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


DOORS = ("pkray", "pkray.relational")
"""List names, and open what has them when they are asked for: what they name is above them."""


def order(imports: dict[str, set[str]]) -> list[str]:
    return list(TopologicalSorter(imports).static_order())


def test_no_module_imports_itself_by_way_of_others():
    imports = {
        name: {each for each in imported(path) if each in MODULES and each != name}
        for name, path in MODULES.items()
        if name not in DOORS
    }
    try:
        order(imports)
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_an_import_for_types_alone_or_within_a_function_counts(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("if TYPE_CHECKING:\n from pkray import clock\ndef f():\n import pkray.errors")
    assert set(imported(path)) == {"pkray.clock", "pkray.errors"}
    with pytest.raises(CycleError):
        order({"a": {"b"}, "b": {"a"}})


LOADED_LATE = {
    ("pkray.scan.predicate", "pkray.scan.filter_sql"),  # tasks do without the SQL parser
    ("pkray.service.runtimes", "pkray.service.ray.runtime"),  # an extra
    ("pkray.storage.opening", "pkray.storage.remote"),  # its library takes long to load
}
"""Imports of the package within functions: downwards all of them, to start quickly."""
NAMED_MODULES = {"pkray", "pkray.relational", "pkray.extras", "pkray.lazily", "pkray.cli.loading"}
"""Those that import modules by their names: doors, optional extras, commands."""


def test_functions_import_no_module_of_the_package_but_these():
    within = {
        (name, module)
        for name, path in MODULES.items()
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pkray")
        for module in [node.module or ""]
    }
    assert within == LOADED_LATE


def test_modules_are_named_by_strings_in_few_places():
    assert {
        name for name, path in MODULES.items() if "import_module(" in path.read_text()
    } == NAMED_MODULES
