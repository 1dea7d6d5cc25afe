"""What the Dockerfile installs is a service: its lines are run, without Docker."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import ROOT, commands, instruction

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # it installs Ray

MOST_BYTES = 1_500_000_000


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Path:
    """Do what the first stage does, of the files that it copies and no others."""
    folder = tmp_path_factory.mktemp("image")
    for line in instruction("COPY")[:-1]:
        *sources, target = line.split()
        for source in sources:
            place = folder / target / Path(source).name if target != "pkray" else folder / target
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, place)
    line = instruction("RUN")[0].replace("/opt/pkray", f"{folder}/opt")
    environment = {**os.environ, "EXTRAS": instruction("ARG")[0].partition("=")[2]}
    subprocess.run(["bash", "-ec", line], cwd=folder, env=environment, check=True, timeout=800)
    return folder / "opt"


def test_it_is_small(image):
    sizes = (path.stat().st_size for path in image.rglob("*") if not path.is_symlink())
    assert sum(sizes) < MOST_BYTES


@pytest.mark.parametrize("name", ["CMD", "HEALTHCHECK"])
def test_its_commands_are_there(image, name):
    """Where no cluster is, each says so."""
    environment = {**os.environ, "PATH": f"{image}/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", commands()[f"Dockerfile {name}"]],
        env=environment | {"PKRAY_RAY": "127.0.0.1:1"},
        cwd=image,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "no Ray cluster answers at address '127.0.0.1:1'" in done.stderr
