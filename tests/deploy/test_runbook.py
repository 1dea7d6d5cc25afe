"""What the runbook says can be done as it stands there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pkray
from pkray import errors
from pkray.cli import main
from tests.deploy.files import ROOT, is_shell
from tests.deploy.parsing import parse
from tests.deploy.runbook import KINDS, PAGE, blocks, prepare

COMMANDS = [
    pytest.param(line, id=f"{block.heading}: {line}")
    for block in blocks(*KINDS)
    for line in block.lines
    if line.startswith("pkray ")
]
SYMPTOMS = [
    "A worker is gone",
    "The head is gone",
    "A query has failed",
    "A query has stopped: another run took over",
    "A query is behind",
    "The state of a query grows",
    "Snapshots do not expire",
    "Writes wait, files of level 0 pile up",
    "Lookups are slow",
    "The store answers errors",
    "Memory is high",
    "Versions differ",
    "A disk is full",
]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_line_takes_a_command(line):
    parse(shlex.split(line))


@pytest.mark.parametrize("block", blocks(*KINDS), ids=lambda each: f"{each.heading} {each.kind}")
def test_a_shell_understands_a_block(block):
    assert is_shell(block.text)


def test_all_blocks_are_of_a_kind():
    assert PAGE.count("\n```sh") == len(blocks(*KINDS))


def test_each_symptom_says_what_it_looks_like():
    parts = dict(re.findall(r"(?ms)^## (.*?)\n(.*?)(?=^#)", PAGE))
    assert [name for name in parts if name in SYMPTOMS] == SYMPTOMS
    assert [name for name in SYMPTOMS if "**Looks like**" not in parts[name]] == []


def test_links_within_the_page_lead_to_headings():
    headings = re.findall(r"(?m)^#+ (.*)$", PAGE)
    anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors


def test_errors_that_it_names_are_errors():
    named = set(re.findall(r"\b[A-Z]\w+Error\b", PAGE)) - {"AttributeError"}
    assert [name for name in named if not hasattr(errors, name)] == []


def test_settings_and_options_that_it_names_are_there():
    from pkray.options import catalogue
    from pkray.service.settings import SETTINGS

    known = {each.name for each in SETTINGS} | {each.key for each in catalogue()}
    said = {
        "worker_memory",
        "pool_workers",
        "metadata_cache",
        "local_directory",
        "storage_retry_timeout",
        "storage_max_retries",
        "write-buffer-size",
        "consumer.expiration-time",
        "num-sorted-run.stop-trigger",
        "write-only",
    }
    assert all(name in PAGE for name in said)
    assert said <= known


def test_what_needs_files_alone_works_on_a_warehouse(tmp_path, monkeypatch, capsys):
    prepare(tmp_path / "warehouse")
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(tmp_path / "warehouse"))
    for block in blocks(""):
        for line in block.lines:
            with pytest.raises(SystemExit) as left:
                main(shlex.split(line)[1:])
            assert left.value.code in (0, None), (block.heading, line, capsys.readouterr().err)


class Drills:
    """Runs the blocks of drills, in a folder.

    Args:
        in_shell: as somebody types them; else this process does what `pkray` is to do, which is
            faster.
    """

    def __init__(self, folder: Path, in_shell: bool = False) -> None:
        self.warehouse = folder / "warehouse"
        self._in_shell = in_shell
        self._environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("PKRAY_")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PKRAY_WAREHOUSE": str(self.warehouse),
            "BACKUPS": str(folder / "backups"),
            "ASIDE": str(folder / "aside"),
        }

    def run(self, heading: str) -> None:
        for block in blocks("drill"):
            if block.heading == heading and self._in_shell:
                self._shell(block.text)
            elif block.heading == heading:
                for line in block.lines:
                    self._line(line)

    def _shell(self, text: str) -> None:
        done = subprocess.run(
            ["bash", "-euc", text],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=280,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _line(self, line: str) -> None:
        if assigned := re.fullmatch(r'(\w+)="(.*)"', line):
            self._environment[assigned[1]] = assigned[2]
        elif line.startswith("pkray "):
            with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
                for name, text in self._environment.items():
                    patch.setenv(name, text)
                main([os.path.expandvars(word) for word in shlex.split(line)[1:]])
            assert left.value.code in (0, None), line
        else:
            self._shell(line)

    def totals(self) -> list[dict[str, object]]:
        with pkray.connect(self.warehouse) as catalog:
            rows = catalog.load_table("shop.totals").to_arrow().drop_columns("_row_key")
            return sorted(rows.to_pylist(), key=lambda row: str(row["customer"]))


@pytest.fixture
def drills(tmp_path):
    prepare(tmp_path / "warehouse")
    return Drills(tmp_path)


BEFORE = [{"customer": "Ada", "n": 2}, {"customer": "Grace", "n": 1}]


def test_the_drill_of_a_new_version(drills):
    drills.run("Upgrade: a new version of the service")
    assert drills.totals() == BEFORE


def test_the_drill_of_another_plan(drills):
    drills.run("Upgrade: another plan for a query")
    assert drills.totals() == [
        {"customer": "Ada", "n": 2, "total": 5.0},
        {"customer": "Grace", "n": 1, "total": 2.0},
    ]


def test_the_drills_of_back_up_and_disaster(drills):
    drills.run("Back-up")
    shutil.rmtree(drills.warehouse)
    drills.run("Disaster: the warehouse is lost")
    assert drills.totals() == BEFORE


def test_a_warehouse_whose_data_are_lost_comes_back(drills):
    drills.run("Back-up")
    for part in drills.warehouse.rglob("*.parquet"):
        part.unlink()
    drills.run("Disaster: the warehouse is lost")
    assert drills.totals() == BEFORE


@pytest.mark.slow
def test_the_drills_are_run_as_somebody_types_them(tmp_path):
    prepare(tmp_path / "warehouse")
    typed = Drills(tmp_path, in_shell=True)
    for heading in dict.fromkeys(each.heading for each in blocks("drill")):
        typed.run(heading)
    assert len(typed.totals()) == 2


def test_every_drill_has_steps():
    parts = re.findall(r"(?m)^## (.*)$", PAGE[PAGE.index("# Drills") :])
    assert {each.heading for each in blocks("drill")} == set(parts)


@pytest.mark.parametrize(
    "said",
    [
        "no Ray cluster answers at address",
        "another run of the query",
        "took over; this one stops",
        "a newer writer of commit user",
        "wait for its compaction",
        "writers_waiting",
        "held_by",
        "left_out",
    ],
)
def test_what_it_looks_like_is_what_the_code_says(said):
    code = " ".join(path.read_text() for path in (ROOT / "pkray").rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", code)
    assert said in re.sub(r"\s+", " ", PAGE)
    assert said in joined
