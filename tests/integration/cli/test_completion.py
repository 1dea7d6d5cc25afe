"""What a shell offers when a word is completed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pkray
from pkray.cli import main

PROGRAM = "import sys; sys.argv[0] = 'pkray'; import pkray.cli; pkray.cli.main()"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    with pkray.connect(tmp_path) as catalog:
        for name in ("shop.orders", "shop.people", "stock.items"):
            catalog.create_table(name, [("id", "BIGINT")], ["id"])
        catalog.create_database("empty")
    return tmp_path


def asked(*words: str) -> dict[str, str]:
    """What bash says in the environment when the last of the words is completed."""
    return {
        "_PKRAY_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(["pkray", *words]),
        "COMP_CWORD": str(len(words)),
    }


@pytest.fixture
def offered(monkeypatch, capsys) -> Callable[..., list[str]]:
    """What bash is offered for the last of some words."""

    def ask(*words: str, **environment: str) -> list[str]:
        for name, value in (asked(*words) | environment).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["pkray"])
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None)  # it is a program's
        with pytest.raises(SystemExit):
            main()
        said = capsys.readouterr()
        assert said.err == ""
        return said.out.split()

    return ask


def test_the_program_offers_commands():
    environment = {**os.environ, **asked("ups")}
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout.split(), ran.stderr) == (["upsert"], "")


def test_commands_are_offered(offered):
    assert {"create", "upsert", "alter"} <= set(offered(""))
    assert offered("ups") == ["upsert"]
    assert set(offered("tag", "")) == {"create", "delete", "list"}


def test_tables_of_the_warehouse_are_offered(warehouse, offered):
    assert offered("scan", "sho", PKRAY_WAREHOUSE=str(warehouse)) == ["shop.orders", "shop.people"]
    assert offered("scan", "shop.p", PKRAY_WAREHOUSE=str(warehouse)) == ["shop.people"]
    assert offered("scan", "-w", str(warehouse), "st") == ["stock.items"]


def test_databases_and_options_are_offered(warehouse, offered):
    assert offered("tables", "-w", str(warehouse), "e") == []
    assert offered("database", "drop", "-w", str(warehouse), "e") == ["empty"]
    assert "merge-engine=" in offered("create", "db.t", "-o", "merge-e")


@pytest.mark.parametrize("place", ["s3://bucket/warehouse", "no-such-folder", "\udcff"])
def test_nothing_is_offered_of_what_is_far_or_not_there(place, offered):
    assert offered("scan", "sh", PKRAY_WAREHOUSE=place) == []


def test_a_name_that_a_shell_would_read_is_not_offered(warehouse, offered):
    for name in ("$(touch x)", "a;b", "shop\nnew", "-"):
        (warehouse / "shop.db" / name / "schema").mkdir(parents=True)
    assert offered("scan", "shop", PKRAY_WAREHOUSE=str(warehouse)) == [
        "shop.-", "shop.orders", "shop.people",
    ]  # fmt: skip
