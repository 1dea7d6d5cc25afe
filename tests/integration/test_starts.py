"""A process starts with what it needs, and pandas is not among it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

_ARROW = {"numpy", "pyarrow"}
_FILES = {"fastavro", "msgspec", "obstore", "pyroaring", "rocksdict", "tenacity", "xxhash"}
_SQL = {"mypy_extensions", "sqlglot", "sqlglotc"}
_COMMANDS = {"annotated_doc", "rich", "shellingham", "typer"}
_ARGUMENTS = {"annotated_types", "pydantic", "pydantic_core", "typing_inspection"}
_PAGES = {"attr", "attrs", "markdown_it", "mdurl", "pygments"}
"""What Typer draws a page of help with."""

STARTS = {
    "import pkray": set(),
    "import pkray; pkray.connect": _ARROW | _FILES,
    "pkray --help": _COMMANDS | _PAGES,
    "pkray sql 'SELECT 1'": _ARROW | _FILES | _SQL | _COMMANDS | _ARGUMENTS,
    "import pkray.service.ray.actors": _ARROW | _FILES,
    "import pkray.relational.continuous.queries.hosting": _ARROW | _FILES | _SQL,
}
"""The packages that each start of a process may load, besides Python's own.

Of an actor those that Ray loads do not count.
"""
_EVERYWHERE = {"pkray", "typing_extensions"}
_OF_PYTHON = re.compile(r"_?cython_|_sysconfigdata|__mp_main__$|\w+__mypyc$")

_LOADED = """
import atexit, json, runpy, shlex, sys
if {with_ray}: import ray
before = set(sys.modules)
atexit.register(lambda: print(json.dumps(sorted(set(sys.modules) - before)), file=sys.stderr))
if {start!r}.startswith("import "):
    exec({start!r})
else:
    sys.argv = shlex.split({start!r})
    runpy.run_module("pkray", run_name="__main__")
"""


def loaded(start: str, folder: Path) -> set[str]:
    """List the modules that a process has loaded when it has started and ended."""
    program = _LOADED.format(start=start, with_ray="ray" in start.split("."))
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(json.loads(ran.stderr.splitlines()[-1]))


@pytest.mark.parametrize("start", STARTS)
def test_a_start_loads_no_more_than_is_listed(start, tmp_path):
    packages = {module.partition(".")[0] for module in loaded(start, tmp_path)}
    foreign = {each for each in packages - sys.stdlib_module_names if not _OF_PYTHON.match(each)}
    assert foreign - _EVERYWHERE <= STARTS[start]


def test_help_loads_nothing_of_pkray_but_the_list_of_commands(tmp_path):
    own = {module for module in loaded("pkray --help", tmp_path) if module.startswith("pkray.")}
    assert own == {
        "pkray.cli",
        "pkray.cli.app",
        "pkray.cli.loading",
        "pkray.cli.wording",
        "pkray.errors",
        "pkray.extras",
        "pkray.version",
    }


def test_no_module_loads_pandas_but_what_loads_ray_data(tmp_path):
    folder = Path(__file__).parents[2] / "pkray"
    names = [
        ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(folder.rglob("*.py"))
        if path.parent.name != "ray_data"
        and path.stem not in ("__main__", "pyspark_pkray")  # a wheel has the latter elsewhere
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    importlib.import_module(name)\n"
        "    assert 'pandas' not in sys.modules, name"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
