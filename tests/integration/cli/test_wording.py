"""Errors name the options of the command, not the arguments of Python."""

import shlex
from pathlib import Path

import pytest

import pkray
from pkray.cli import main


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", [("k", "BIGINT"), ("tag", "STRING")], ["k"])
        table.upsert([{"k": 1, "tag": "a"}])
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("database drop db", "drop db.t first, or pass --cascade"),
        ("create db.new --column 'k INT'", "not supported; give --primary-key"),
        ("alter move-column db.t tag", "'tag' moves somewhere: give --first or --after <column>"),
        ("rollback db.t", "what --snapshot or --tag names: give one of them"),
        ("rollback db.t --snapshot 1 --tag x", "what --snapshot or --tag names: give one of them"),
        ("scan db.t --snapshot 1 --tag tag", "--snapshot 1 and --tag 'tag' name a snapshot each"),
        ("changelog db.t --from 1 --from-tag x", "--from, --from-tag and --from-timestamp name"),
        ("changelog db.t --to 1 --to-tag x", "--to, --to-tag and --to-timestamp name"),
        ("tag create db.t x --time-retained soon", "--time-retained cannot be 'soon'"),
        (
            "lookup db.t -k k=1 --snapshot 1 --visibility latest",
            "go with --visibility 'committed' only",
        ),
        ("consumers reset db.t c --next 9223372036854775808", "--next cannot be"),
        ("rescale db.t -- -1", "BUCKETS cannot be -1"),
    ],
)
def test_errors_name_options(capsys, monkeypatch, warehouse, words, said):
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(warehouse))
    with pytest.raises(SystemExit):
        main(shlex.split(words))
    assert said in capsys.readouterr().err


def test_other_words_stay(capsys, monkeypatch, warehouse):
    """A column is called as an argument is."""
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(warehouse))
    with pytest.raises(SystemExit):
        main(shlex.split("alter move-column db.t tag --after tag"))
    assert "column 'tag' cannot move after itself" in capsys.readouterr().err
