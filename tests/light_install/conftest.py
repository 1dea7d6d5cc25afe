"""An environment with nothing but what `pip install` of pkray brings."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the folder that its programs run in."""

    folder: Path
    work: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment to its end."""
        command = [str(self.folder / "bin" / program), *arguments]
        return subprocess.run(command, cwd=self.work, capture_output=True, text=True, timeout=250)

    def pkray(self, *arguments: str) -> str:
        """What a command of pkray prints."""
        done = self.run("pkray", *arguments, "--warehouse", "shell")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, code: str) -> str:
        """What Python code prints."""
        done = self.run("python", "-c", dedent(code))
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def light(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    environment = Environment(folder / "venv", folder)
    subprocess.run([sys.executable, "-m", "venv", str(environment.folder)], check=True)
    done = environment.run("python", "-m", "pip", "install", "--quiet", str(_ROOT))
    assert done.returncode == 0, done.stderr
    return environment
