"""The programs of the system that some tests need, each with a marker of its own.

``python -m tests.programs missing [apt-get|pip]`` names the packages of those that are not there,
``python -m tests.programs markers`` says to ``pytest -m`` which tests need one, and
``python -m tests.programs files`` in which files they are.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Program:
    """What tests of one marker need.

    Args:
        name: of the executable.
        package: that has it.
        purpose: of the marker.
        folders: a pattern of where the package has it, if not on the path.
        installer: ``apt-get`` or ``pip``: what brings the package. Where all programs are wanted,
            those of pip may be missing: an index can lose a package.
    """

    name: str
    package: str
    purpose: str
    folders: str = ""
    installer: str = "apt-get"

    @property
    def path(self) -> str | None:
        """Where it is; None: it is missing."""
        folders = sorted(Path("/").glob(self.folders), reverse=True) if self.folders else []
        searched = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders)])
        found = shutil.which(self.name, path=searched)
        return None if found is None else str(Path(found).resolve())

    @property
    def is_there(self) -> bool:
        return self.path is not None


PROGRAMS: Mapping[str, Program] = {
    "postgres": Program(
        "postgres",
        "postgresql",
        "runs a PostgreSQL, and follows a table of it",
        "usr/lib/postgresql/*/bin",
    ),
    "redis": Program("redis-server", "redis-server", "keeps the state of Ray's head in a Redis"),
    "systemd": Program("systemd-analyze", "systemd", "has systemd check its units"),
    "promtool": Program("promtool", "prometheus", "has Prometheus check rules and metrics"),
    "chromium": Program("chromium", "chromium", "looks at the console's pages in a browser"),
    "noida": Program(
        "noida-db",
        "noida-db==0.2.3",
        "talks to a broker that keeps Kafka's transactions",
        installer="pip",
    ),
}
"""By marker."""

WANTED = "PKRAY_TEST_PROGRAMS"
"""Environment: ``there`` (default): tests of programs that are missing are left out; ``all``: a
missing program is an error; ``none``: no test that needs one is run."""


def missing(installer: str = "apt-get") -> list[Program]:
    """List the programs that are not there, of those that come by an installer."""
    found = [program for program in PROGRAMS.values() if program.installer == installer]
    return [program for program in found if not program.is_there]


def files() -> list[str]:
    """List the files that have tests with one of the markers."""
    root, marks = Path(__file__).parent, [f"mark.{marker}" for marker in PROGRAMS]
    paths = sorted(root.rglob("test_*.py"))
    found = [path for path in paths if any(mark in path.read_text() for mark in marks)]
    return [str(path.relative_to(root.parent)) for path in found]


class ProgramTests:
    """A plugin of pytest: leaves out what needs programs that are not there, and says so."""

    def __init__(self) -> None:
        self._left_out: dict[str, int] = {}

    def pytest_configure(self, config: pytest.Config) -> None:
        for marker, program in PROGRAMS.items():
            config.addinivalue_line("markers", f"{marker}: {program.purpose}")
        wanted = os.environ.get(WANTED, "there")
        if wanted not in ("there", "all", "none"):
            raise pytest.UsageError(f"{WANTED} is {wanted!r}: give there, all or none")
        if wanted == "all" and missing():
            raise pytest.UsageError(_say(missing()))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave tests out, after all others that are not to run."""
        left_out = [item for item in items if any(self._is_left_out(item))]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]
        for item in left_out:
            for marker in self._is_left_out(item):
                self._left_out[marker] = self._left_out.get(marker, 0) + 1
        if hasattr(config, "workeroutput"):
            config.workeroutput["left_out"] = self._left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process of tests has left out: each has looked at all."""
        self._left_out |= getattr(node, "workeroutput", {}).get("left_out", {})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left_out and os.environ.get(WANTED) != "none":
            count = sum(self._left_out.values())
            needed = [PROGRAMS[marker] for marker in self._left_out]
            terminalreporter.write_line(f"{count} left out: {_say(needed)}")

    @staticmethod
    def _is_left_out(item: pytest.Item) -> Iterable[str]:
        for marker, program in PROGRAMS.items():
            if item.get_closest_marker(marker) is not None and (
                os.environ.get(WANTED) == "none" or not program.is_there
            ):
                yield marker


def _say(programs: Iterable[Program]) -> str:
    programs = list(programs)
    names = ", ".join(each.name for each in programs)
    packages: dict[str, list[str]] = {}
    for each in programs:
        packages.setdefault(each.installer, []).append(each.package)
    words = " and ".join(f"{name} install {' '.join(some)}" for name, some in packages.items())
    return f"{names} is missing: {words}, or install it as your system does"


if __name__ == "__main__":
    if sys.argv[1:2] == ["missing"] and len(sys.argv) <= 3:
        print(*(program.package for program in missing(*sys.argv[2:])))
    elif sys.argv[1:] == ["markers"]:
        print(*PROGRAMS, sep=" or ")
    elif sys.argv[1:] == ["files"]:
        print(*files())
    else:
        sys.exit("usage: python -m tests.programs missing [apt-get|pip]|markers|files")
