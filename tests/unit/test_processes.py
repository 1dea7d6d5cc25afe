"""How many processes run the tests, and what begins first."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import LONGEST, place_of, pytest_cmdline_main

ROOT = Path(__file__).parents[2]


def processes(*paths, xdist=True, **options):
    plain = {"numprocesses": None, "maxprocesses": None, "capture": "fd", "tx": []}
    config = SimpleNamespace(
        option=SimpleNamespace(**plain | options),
        pluginmanager=SimpleNamespace(hasplugin=lambda name: xdist),
        args=list(paths),
    )
    pytest_cmdline_main(config)
    return config.option.numprocesses


@pytest.mark.parametrize("paths", [[], ["tests/unit"], ["tests/a.py", "tests/b.py"]])
def test_tests_run_in_a_process_for_each_processor(paths):
    assert processes(*paths) == "auto"


@pytest.mark.parametrize("path", ["tests/unit/test_a.py", "tests/unit/test_a.py::test_b"])
def test_one_file_runs_in_the_process_itself(path):
    assert processes(path) is None


@pytest.mark.parametrize("options", [{"xdist": False}, {"capture": "no"}, {"tx": ["popen"]}])
def test_no_processes_are_started_where_that_is_not_wanted(options):
    assert processes(**options) is None


@pytest.mark.parametrize("number", [0, 3])
def test_a_number_that_is_given_is_kept(number):
    assert processes(numprocesses=number) == number


def test_tests_that_share_a_cluster_stay_in_one_process():
    assert place_of("tests/ray/test_a.py::b") == place_of("tests/spark/on_ray/test_c.py::d")
    assert place_of("tests/unit/ray/test_a.py::test_b") == "tests/unit/ray/test_a.py"


def test_what_begins_first_is_there():
    assert [
        place for place in LONGEST if ".py" in place and not ROOT.joinpath(place).exists()
    ] == []
