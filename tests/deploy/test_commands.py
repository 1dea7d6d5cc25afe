"""What containers, pods and units run exists, and takes what it is given."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy import files
from tests.deploy.parsing import parse, parse_ray

COMMANDS = files.commands()


@pytest.mark.parametrize("place", COMMANDS)
def test_a_shell_understands_a_command(place):
    assert files.is_shell(COMMANDS[place])


@pytest.mark.parametrize("place", COMMANDS)
def test_pkray_and_ray_take_what_a_command_gives_them(place):
    found = 0
    for words in files.calls(COMMANDS[place], "pkray"):
        parse(words)
        found += 1
    for words in files.calls(COMMANDS[place], "ray"):
        parse_ray(words)
        found += 1
    assert found or "KUBERAY_GEN_RAY_START_CMD" in COMMANDS[place] or "pkray" in COMMANDS[place]


def test_all_ways_start_what_service_start_starts():
    started = [
        COMMANDS["Dockerfile CMD"],
        COMMANDS["compose head command"],
        COMMANDS["pkray.service ExecStart"],
        COMMANDS["chart ray-head"],
    ]
    for line in started:
        (words,) = (each for each in files.calls(line, "pkray") if each[2] == "start")
        assert words[:4] == ["pkray", "service", "start", "--stay"]


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line where `/opt/pkray` and `/var/lib/pkray` are below a folder, with its programs."""
    for place in ("/opt/pkray", "/var/lib/pkray"):
        line = line.replace(place, f"{folder}{place}")
    path = f"{folder}/bin:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=250,
    )


def stub(folder: Path, name: str) -> Path:
    """Put a program into a folder that notes what it is given."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\necho {name} "$@" >> {folder}/called\n')
    path.chmod(0o755)
    return path


def test_the_line_that_makes_the_user_runs_in_a_shell(tmp_path):
    """Without root: owners are left out, and who makes users only notes it."""
    stub(tmp_path, "useradd")
    (tmp_path / "var/lib").mkdir(parents=True)
    line = files.instruction("RUN")[1].replace("--owner=1000 --group=1000", "")
    assert shell(line, tmp_path).returncode == 0
    assert (tmp_path / "var/lib/pkray").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "called").read_text() == "useradd --uid 1000 --create-home pkray\n"


def test_the_line_that_installs_names_an_extra_and_the_constraints(tmp_path):
    """Without a network: what is installed is noted. `tests/light_install` installs it."""
    line = files.instruction("RUN")[0].replace("/opt/pkray/bin/pip", "pip")
    line = line.replace("python -m venv", f"{sys.executable} -m venv --without-pip")
    stub(tmp_path, "pip")
    (extra,) = (each.partition("=")[2] for each in files.instruction("ARG"))
    assert shell(line, tmp_path, EXTRAS=extra).returncode == 0
    assert (tmp_path / "called").read_text() == f"pip install -c .ci/constraints.txt .[{extra}]\n"
    assert (tmp_path / "opt/pkray/bin/python").exists()


def test_the_image_is_made_of_files_that_are_there():
    sources = [word for rest in files.instruction("COPY")[:-1] for word in rest.split()[:-1]]
    assert [each for each in sources if not (files.ROOT / each).exists()] == []
    kept = (files.ROOT / "deploy/Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in kept if line.startswith("!")} == set(sources)


def test_a_health_check_fails_where_nothing_runs(tmp_path):
    """It asks for the cluster that runs here; in this folder none is known."""
    done = shell(
        COMMANDS["Dockerfile HEALTHCHECK"],
        tmp_path,
        PKRAY_RAY="127.0.0.1:1",
        PKRAY_WAREHOUSE=str(tmp_path / "warehouse"),
    )
    assert done.returncode == 1
    assert "no Ray cluster answers at address '127.0.0.1:1'" in done.stderr


def test_a_probe_of_a_pod_says_that_nobody_answers():
    template = files.pod_templates(files.one(files.rendered(), "RayCluster"))["ray-worker"]
    command = template["spec"]["containers"][0]["livenessProbe"]["exec"]["command"]
    command = [sys.executable, *command[1:-1], "http://127.0.0.1:1/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Connection refused" in done.stderr


def test_nothing_runs_as_root():
    (user,) = files.instruction("USER")
    assert user == "1000:1000"
    assert {files.unit(path)["User"][0] for path in files.UNITS} == {"pkray"}
    for template in files.pod_templates(files.one(files.rendered(), "RayCluster")).values():
        assert template["spec"]["securityContext"]["runAsNonRoot"]


def test_the_health_check_is_that_of_the_image_in_compose():
    ours = {name for name, each in files.compose()["services"].items() if "build" in each}
    assert ours == {"head", "worker", "spark", "console"}
    other = {name for name in ours if "healthcheck" in files.compose()["services"][name]}
    assert other == {"spark", "console"}
    assert json.loads(files.instruction("HEALTHCHECK")[0].partition("CMD ")[2]) == [
        "pkray",
        "service",
        "status",
    ]
