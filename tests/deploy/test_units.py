"""The systemd units are what systemd takes, and keep secrets out of files and environments."""

import subprocess
import sysconfig

import pytest

from pkray.service.settings import SETTINGS
from tests.deploy.files import UNITS, unit


@pytest.mark.systemd
def test_systemd_takes_the_units(tmp_path):
    programs = sysconfig.get_path("scripts")
    for path in UNITS:
        text = path.read_text().replace("/opt/pkray/bin", programs)
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    ours = [line for line in done.stderr.splitlines() if "pkray" in line]
    assert ours == []


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_sets_what_there_is(path):
    pairs = [pair for line in unit(path).get("Environment", []) for pair in line.split()]
    names = {pair.partition("=")[0] for pair in pairs}
    known = {each.variable for each in SETTINGS} | {"PKRAY_SETTINGS"}
    assert {name for name in names if name.startswith("PKRAY_")} <= known


def test_secrets_come_from_credentials():
    lines = unit(next(path for path in UNITS if path.name == "pkray.service"))
    given = {line.partition(":")[0] for line in lines["LoadCredential"]}
    files = {
        pair.partition("=%d/")[2]
        for line in lines["Environment"]
        for pair in line.split()
        if "=%d/" in pair
    }
    assert given == files


def test_the_service_ends_with_its_head():
    lines = unit(next(path for path in UNITS if path.name == "pkray.service"))
    for key in ("Requires", "After", "PartOf"):
        assert lines[key] == ["pkray-head.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_gets_no_more_rights_than_it_needs(path):
    lines = unit(path)
    assert (lines["NoNewPrivileges"], lines["ProtectSystem"]) == (["yes"], ["strict"])
    assert lines["StateDirectoryMode"] == ["0700"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_writes_into_its_own_folder_alone(path):
    """`/tmp` is read-only for it; Ray and Python are told of another one."""
    pairs = [pair for line in unit(path)["Environment"] for pair in line.split()]
    assert {"TMPDIR=%S/pkray", "RAY_TMPDIR=%S/pkray"} <= set(pairs)
