"""Spark sessions with the settings that pkray, and RayDP on Java 17, need."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

import pkray
from pkray.arguments import checked
from pkray.errors import ServiceUnavailableError, UnsupportedError
from pkray.spark.java import REQUIRED, java_version, use_java

_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.math",
    "java.text",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
    "jdk.internal.ref",
)
_ADD_OPENS = " ".join(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED)
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    "spark.sql.shuffle.partitions": "8",
}
_STOP_SECONDS = 30
_JAVA_OPTIONS = (
    "spark.ray.raydp_app_master.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    "spark.driver.extraJavaOptions",
)


@checked
def session(
    app_name: str = "pkray",
    *,
    ray: bool = False,
    executors: int = 1,
    cores: int = 2,
    memory: str = "1g",
    configs: Mapping[str, str] | None = None,
) -> SparkSession:
    """A SparkSession: on Ray through RayDP, or in this process's own JVM.

    Args:
        ray: run the executors as Ray actors, in the cluster that this process is in (connect
            with ``runtime="ray"`` first) or one on this machine.
        executors: executors on Ray.
        cores: tasks side by side, an executor on Ray.
        memory: heap of an executor on Ray, or of the one JVM: "1g", "800m".
        configs: Spark settings; they win over those made here (UTC as the time zone, Arrow
            batches of 131,072 rows, no web UI). Spark logs errors alone; say
            ``spark.sparkContext.setLogLevel("WARN")`` for more.

    Raises:
        ServiceUnavailableError: there is no Java, or Spark did not start.
        UnsupportedError: the Java found is not 17.
    """
    already_in_ray = _in_ray()
    java_before = shutil.which("java")
    home = use_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {**_SETTINGS, **(configs or {})}
    for key in _JAVA_OPTIONS:
        settings[key] = f"{_ADD_OPENS} {settings.get(key, '')}".strip()
    if not ray:
        running = _local(app_name, cores, memory, settings)
    else:
        if already_in_ray:
            _check_java_of_ray(java_before, home)
        running = _on_ray(app_name, executors, cores, memory, settings)
    running.sparkContext.setLogLevel("ERROR")
    return running


@checked
def stop() -> None:
    """Stop the session that `session` started, its JVM and its executors; Ray stays."""
    running = SparkSession.getActiveSession()
    name = running.sparkContext.appName if running is not None else None
    if "raydp" in sys.modules:
        import raydp

        raydp.stop_spark()
    if running is not None:
        running.stop()
    _end_jvm()
    if name is not None and _in_ray():
        _await_end_of_master(name)


def _local(app_name: str, cores: int, memory: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(app_name).master(f"local[{cores}]")
    builder = builder.config("spark.driver.memory", memory)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _on_ray(
    app_name: str, executors: int, cores: int, memory: str, settings: dict[str, str]
) -> SparkSession:
    import raydp

    if SparkContext._active_spark_context is not None:
        raise ServiceUnavailableError(
            "this process has a Spark session already, and can have one: stop it with "
            "pkray.spark.stop() before starting one on Ray"
        )
    _end_jvm()
    source = str(Path(pkray.__file__).parent.parent)
    settings.setdefault("spark.executorEnv.PYTHONPATH", source)
    try:
        running: SparkSession = raydp.init_spark(
            app_name, executors, cores, memory.upper().removesuffix("B") + "B", configs=settings
        )
    except Exception as error:
        raise ServiceUnavailableError(
            f"Spark did not start on Ray: {str(error).strip().partition(chr(10))[0]}; ask for "
            "fewer executors, cores or less memory",
        ) from error
    return running


def _end_jvm() -> None:
    """PySpark keeps the JVM of a stopped session, whose classpath lacks or has RayDP for good."""
    gateway = SparkContext._gateway
    if gateway is None or SparkContext._active_spark_context is not None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    if process is not None:
        process.stdin.close()  # its sign to end
        process.wait(_STOP_SECONDS)


def _await_end_of_master(app_name: str) -> None:
    """RayDP's master actor ends on its own, and holds its name until then."""
    import ray

    deadline = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < deadline:
        try:
            ray.get_actor(f"{app_name}_SPARK_MASTER")
        except ValueError:
            return
        time.sleep(0.1)


def _in_ray() -> bool:
    if "ray" not in sys.modules:
        return False
    import ray

    return bool(ray.is_initialized())


def _check_java_of_ray(java: str | None, home: Path) -> None:
    """Ray's processes were started with the PATH of before, and RayDP runs ``java`` from it."""
    version = java_version(Path(java).resolve().parent.parent) if java else None
    if version != REQUIRED:
        found = f"Java {version}" if version else "no Java"
        raise UnsupportedError(
            f"Ray is running with {found} on its PATH, and its executors need Java {REQUIRED}: "
            f"put {home / 'bin'} first on PATH before Ray starts",
            version=version,
            required=REQUIRED,
        )
