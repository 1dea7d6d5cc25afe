"""Tests whose programs are missing are left out, with one line that says which."""

from types import SimpleNamespace

import pytest

from tests.programs import PROGRAMS, WANTED, Program, ProgramTests


class Reporter:
    def __init__(self):
        self.lines = []

    def write_line(self, line):
        self.lines.append(line)


def collected(*markers: str) -> tuple[list[str], list[str]]:
    """Collect a test a marker; the markers that are left, and what is said."""
    deselected = SimpleNamespace(pytest_deselected=lambda items: None)
    items = [
        SimpleNamespace(
            name=marker, get_closest_marker=lambda name, own=marker: name == own or None
        )
        for marker in markers
    ]
    plugin, reporter = ProgramTests(), Reporter()
    plugin.pytest_collection_modifyitems(SimpleNamespace(hook=deselected), items)
    plugin.pytest_terminal_summary(reporter)
    return [item.name for item in items], reporter.lines


@pytest.fixture
def nothing(monkeypatch):
    """No program is there."""
    monkeypatch.setattr(Program, "path", None)


@pytest.mark.parametrize("marker", PROGRAMS)
def test_what_needs_a_missing_program_is_left_out_with_one_line(marker, nothing, monkeypatch):
    monkeypatch.delenv(WANTED, raising=False)
    kept, (line,) = collected("slow", marker, marker)
    assert kept == ["slow"]
    program = PROGRAMS[marker]
    assert line.startswith("2 left out")
    assert f"{program.name} is missing: {program.installer} install {program.package}" in line


def test_nothing_is_said_where_nothing_is_left_out(nothing):
    assert collected("slow") == (["slow"], [])


def test_a_missing_program_is_an_error_where_all_are_wanted(nothing, monkeypatch):
    monkeypatch.setenv(WANTED, "all")
    config = SimpleNamespace(addinivalue_line=lambda *_: None)
    with pytest.raises(
        pytest.UsageError,
        match="postgres, redis-server, systemd-analyze, promtool, chromium is missing: apt-get",
    ):
        ProgramTests().pytest_configure(config)
