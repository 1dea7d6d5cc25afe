"""The command `sql`: statements, files of them, and the shell."""

import io
import json
from collections.abc import Iterator

import pytest

import pkray
from pkray.cli.shell import Shell, completions
from pkray.cli.statements import Printer
from tests.integration.cli.conftest import Command


@pytest.fixture
def run(tmp_path, command, monkeypatch) -> Command:
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(tmp_path))

    def call(*arguments: str, stdin: str | bytes | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            data = stdin.encode() if isinstance(stdin, str) else stdin
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return command("sql", *arguments)

    code, _, wrong = call(
        "CREATE TABLE shop.t (id INT, v STRING, l ARRAY<INT>) TBLPROPERTIES ('primary-key' = "
        "'id'); "
        "INSERT INTO shop.t VALUES (1, 'a', array(1, 2)), (2, NULL, NULL)"
    )
    assert (code, wrong) == (0, "")
    return call


def test_rows_are_printed_for_people_and_programs(run):
    query = "SELECT * FROM shop.t ORDER BY id"
    assert run(query)[1].split()[:3] == ["id", "v", "l"]
    lines = run(query, "--json")[1].splitlines()
    assert list(map(json.loads, lines)) == [
        {"id": 1, "v": "a", "l": [1, 2]},
        {"id": 2, "v": None, "l": None},
    ]
    assert run(query, "--csv")[1].splitlines() == ['"id","v","l"', '1,"a","[1, 2]"', "2,,"]


def test_statements_come_from_a_file_or_from_stdin(run, tmp_path):
    script = "USE shop; -- a comment;\nSELECT count(*) AS n FROM t;"
    (tmp_path / "script.sql").write_text(script)
    from_file = run("--file", str(tmp_path / "script.sql"), "--json")[1]
    assert run("--json", stdin=script)[1] == from_file
    assert json.loads(from_file.splitlines()[-1]) == {"n": 2}


def test_an_insert_runs_once_unless_it_is_to_go_on(run):
    insert = "INSERT INTO shop.t (id) VALUES (3)"
    assert json.loads(run(insert, "--json")[1]) == {"table": "shop.t", "snapshot_id": 2}
    code, printed, _ = run("INSERT INTO shop.t (id) VALUES (4)", "--continuous")
    assert code == 0
    assert "shop.t: ended" in printed  # its source is all there is
    rows = run("SELECT id FROM shop.t ORDER BY id", "--json")[1].splitlines()
    assert json.loads(rows[-1]) == {"id": 4}


def test_errors_say_where_in_the_text(run):
    code, printed, wrong = run("SELECT id,\n nope FROM shop.t")
    assert (code, printed) == (1, "")
    assert "no column nope" in wrong
    assert "(line 2, column 2)" in wrong


def test_functions_are_listed_with_their_types(run):
    rows = [json.loads(line) for line in run("--functions", "--json")[1].splitlines()]
    usage = {row["name"]: row["usage"] for row in rows}
    assert "STRING" in usage["upper"]
    assert "DECIMAL" in usage["sum"]
    assert len(usage) > 120


def test_dates_later_than_python_s_are_printed(run):
    query = "SELECT make_date(12345, 1, 2) AS d, array(make_date(12345, 1, 2)) AS a"
    for option in ((), ("--json",), ("--csv",)):
        code, out, _ = run(query, *option)
        assert (code, out.count("12345-01-02")) == (0, 2)


def test_a_file_that_cannot_be_read_is_named(run, tmp_path):
    code, _, error = run("--file", str(tmp_path / "none.sql"))
    assert code == 2
    assert "none.sql cannot be read: No such file" in error


def test_wrong_calls_are_refused(run, tmp_path):
    assert run("SELECT 1", "--file", "x.sql")[0] == 2
    assert run("SELECT 1", "--json", "--csv")[0] == 1
    assert run("SELECT 1", "--dialect", "mysql")[0] == 1


@pytest.fixture
def catalog(run, tmp_path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path) as opened:
        yield opened


def typed(catalog: pkray.Catalog, *lines: str) -> list[str]:
    """Type lines into the shell; the prompts that it shows."""
    prompts, waiting = [], list(lines)

    def read(prompt: str) -> str:
        prompts.append(prompt)
        if not waiting:
            raise EOFError
        return waiting.pop(0)

    Shell(catalog, Printer(as_json=True), "spark").run(read)
    return prompts


def test_the_shell_reads_statements_over_lines_and_goes_on_after_errors(catalog, capsys):
    prompts = typed(
        catalog, "USE shop;", "SELECT x FROM t;", "SELECT id,", "';' AS s FROM t", "WHERE id = 1;"
    )
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1]) == {"id": 1, "s": ";"}
    assert "no column x" in said.err
    assert [prompt.strip() for prompt in prompts] == ["pkray>"] * 3 + ["->"] * 2 + ["pkray>"]


def test_the_shell_is_left_by_a_word(catalog, capsys):
    assert len(typed(catalog, "help", "", "quit", "SELECT 1;")) == 3


def test_the_shell_completes_tables_columns_and_words(catalog):
    assert "shop.t" in completions(catalog, "SELECT * FROM sho")
    catalog.sql("USE shop")
    assert "t" in completions(catalog, "SELECT * FROM t")
    assert "v" in completions(catalog, "SELECT * FROM shop.t WHERE v")
    assert "SELECT" in completions(catalog, "sel")
    assert "substring" in completions(catalog, "SELECT subs")
    assert list(completions(catalog, "SELECT ")) == []


def test_null_and_the_text_null_look_different(run):
    query = "SELECT v, length(v) AS n FROM VALUES ('NULL'), ('''NULL'''), (NULL), ('a') AS t(v)"
    lines = [line.split() for line in run(query)[1].splitlines()[2:-1]]
    assert lines == [["'NULL'", "4"], ["''NULL''", "6"], ["NULL", "NULL"], ["a", "1"]]
    nested = "SELECT array('NULL') AS l, named_struct('a', NULL, 'b', 'NULL') AS s"
    assert run(nested)[1].splitlines()[2].split() == ["'NULL'", "a=NULL,", "b='NULL'"]


def test_numbers_that_are_none_are_text_in_json(run):
    query = (
        "SELECT double('NaN') AS a, float('-Infinity') AS b, double('Infinity') AS c, "
        "array(double('NaN'), 1.5D, NULL) AS l, named_struct('x', float('Infinity')) AS s, "
        "CAST(NULL AS DOUBLE) AS z, 0.5D AS h"
    )
    assert json.loads(run(query, "--json")[1]) == {
        "a": "NaN",
        "b": "-Infinity",
        "c": "Infinity",
        "l": ["NaN", 1.5, None],
        "s": {"x": "Infinity"},
        "z": None,
        "h": 0.5,
    }


@pytest.mark.parametrize("source", ["stdin", "file"])
def test_a_script_that_is_not_utf8_is_refused_with_its_place(run, tmp_path, source):
    script = b"SELECT 1;\nSELECT '\xff'"
    (tmp_path / "script.sql").write_bytes(script)
    name = f"--file {tmp_path / 'script.sql'}" if source == "file" else source
    arguments = ["--file", str(tmp_path / "script.sql")] if source == "file" else []
    code, printed, wrong = run(*arguments, stdin=script)
    assert (code, printed) == (1, "")
    assert wrong.strip() == (
        f"error: {name} is not UTF-8: the byte at offset 18 (line 2) is 0xff; write it in UTF-8"
    )
