"""A newcomer's first commands bring all that they need, and are those that CI runs."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.manual import blocks

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_ci_installs_and_runs_what_the_readme_says():
    typed = [line for block in blocks("../README.md", "", "Set-up") for line in block.splitlines()]
    ran = subprocess.run([ROOT / ".ci/run", "commands"], capture_output=True, text=True, check=True)
    lines = [line for line in ran.stdout.splitlines() if line and not line.startswith("==")]
    assert lines == [line.partition("#")[0].rstrip() for line in typed]


def test_ci_installs_nothing_else_but_programs_at_night():
    files = [ROOT / ".ci/run", *ROOT.glob(".github/workflows/*.yml")]
    written = "\n".join(path.read_text() for path in files)
    by_day = re.sub(r"(?ms)^slow\(\) \{$.*?^\}$", "", written)
    assert by_day != written
    assert "pip install" not in re.sub(r"(?m)#.*$|sed -n .*$", "", by_day)


def required(extra: str) -> set[str]:
    """List the distributions that an extra brings, with those which these need themselves."""
    found: set[str] = set()

    def follow(texts: list[str], extras: set[str]) -> None:
        for requirement in map(Requirement, texts):
            name = canonicalize_name(requirement.name)
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": each}) for each in extras or {""}):
                continue
            if name == "pkray":
                for each in requirement.extras:
                    follow(EXTRAS["optional-dependencies"][each], set())
            elif name not in found:
                found.add(name)
                follow(requires(name) or [], requirement.extras)

    follow(EXTRAS["dependencies"] + EXTRAS["optional-dependencies"][extra], set())
    return found


def imported(files: Iterator[Path]) -> dict[str, Path]:
    """Give the modules that files import from elsewhere, each with one of these files."""
    found = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            else:
                continue
            found.update((name.partition(".")[0], path) for name in names)
    own = {path.stem for folder in ("tests", "examples") for path in (ROOT / folder).rglob("*.py")}
    return {
        name: path
        for name, path in found.items()
        if name not in sys.stdlib_module_names and name not in own | {"pkray", "tests"}
    }


def test_the_extra_of_tests_brings_what_tests_and_examples_import():
    tests = (path for path in ROOT.glob("tests/**/*.py") if "benchmarks" not in path.parts)
    examples = ROOT.glob("examples/*.py")
    brought, providers = required("test"), packages_distributions()
    for name, path in imported(iter([*tests, *examples])).items():
        distributions = {canonicalize_name(each) for each in providers.get(name, [name])}
        assert distributions & brought, f"{path} imports {name}, which '.[test]' does not bring"


def test_the_extra_of_examples_brings_what_examples_import():
    brought, providers = required("examples"), packages_distributions()
    for name, path in imported(ROOT.glob("examples/*.py")).items():
        distributions = {canonicalize_name(each) for each in providers.get(name, [name])}
        assert distributions & brought, f"{path} imports {name}, which '.[examples]' does not bring"
