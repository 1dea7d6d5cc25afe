"""The commands are listed as they describe themselves."""

import ast
from pathlib import Path

import pytest

from pkray.cli.loading import ENTRIES

_COMMANDS = Path(__file__).parents[3] / "pkray" / "cli" / "commands"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_command_is_listed_under_its_name_with_its_own_sentence(entry):
    command = entry.load()
    assert (command.name, " ".join(command.help.split())) == (entry.name, entry.about)


def test_every_command_is_listed():
    listed = {(entry.module, entry.member or entry.name.replace("-", "_")) for entry in ENTRIES}
    modules = {module for module, _ in listed}
    for path in sorted(_COMMANDS.glob("*.py")):
        tree = ast.parse(path.read_text())
        commands = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
            for decorator in node.decorator_list[:1]
            if isinstance(decorator, ast.Name)
            and decorator.id in ("on_warehouse", "on_service", "on_named_service")
        }
        assert {(path.stem, name) for name in commands} <= listed
        assert path.stem in modules | {"__init__"}
