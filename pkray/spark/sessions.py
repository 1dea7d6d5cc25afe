"""Spark sessions with the settings that pkray, and RayDP on Java 17, need."""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from pkray.arguments.facade import checked
from pkray.errors import ServiceUnavailableError, UnsupportedError
from pkray.extras import require_extra
from pkray.java import REQUIRED, java_version, use_java

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
_LOGGING = Path(__file__).with_name("log4j2.properties")
_STOP_SECONDS = 30
"""How long a JVM may take to end; then it is left alone."""
_DRIVER_JAVA = "spark.driver.extraJavaOptions"
_JAVA_OPTIONS = (
    "spark.ray.raydp_app_master.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    _DRIVER_JAVA,
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
    """Start a SparkSession: on Ray through RayDP, or in this process's own JVM.

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
        MissingExtraError: RayDP is not installed, for a session on Ray.
    """
    already_in_ray = _in_ray()
    java_before = shutil.which("java")
    home = use_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {**_SETTINGS, **(configs or {})}
    for key in _JAVA_OPTIONS:
        settings[key] = f"{_ADD_OPENS} {settings.get(key, '')}".strip()
    if not _logging_is_configured(settings[_DRIVER_JAVA]):
        quiet = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
        settings[_DRIVER_JAVA] = f"{quiet} {settings[_DRIVER_JAVA]}"
        settings.setdefault("spark.log4j.config.file.name", _LOGGING.as_uri())  # RayDP's key
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
    context = SparkContext._active_spark_context
    name = context.appName if context is not None else None
    running = _active()
    if "raydp" in sys.modules:
        import raydp

        raydp.stop_spark()
    if running is not None:
        running.stop()
    _end_jvm()
    if name is not None and _in_ray():
        _await_end_of_master(name)


def _active() -> SparkSession | None:
    try:
        return SparkSession.getActiveSession()
    except (Py4JError, ConnectionError):  # Spark's process has ended: there is nobody to tell
        context = SparkContext._active_spark_context
        if context is not None:
            context._jsc = None
            context.stop()
        SparkSession._instantiatedSession = None
        return None


def _local(app_name: str, cores: int, memory: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(app_name).master(f"local[{cores}]")
    builder = builder.config("spark.driver.memory", memory)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _starting():
        return builder.getOrCreate()


def _on_ray(
    app_name: str, executors: int, cores: int, memory: str, settings: dict[str, str]
) -> SparkSession:
    require_extra("spark", "raydp", "session(ray=True)", "without ray=True it is not needed")
    import raydp

    if SparkContext._active_spark_context is not None:
        raise ServiceUnavailableError(
            "this process has a Spark session already, and can have one: stop it with "
            "pkray.spark.stop() before starting one on Ray"
        )
    _end_jvm()
    source = str(Path(__file__).parents[2])
    settings.setdefault("spark.executorEnv.PYTHONPATH", source)
    with _starting():
        running: SparkSession = raydp.init_spark(
            app_name, executors, cores, memory.upper().removesuffix("B") + "B", configs=settings
        )
    return running


@contextmanager
def _starting() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ServiceUnavailableError(
            f"Spark did not start: {str(error).strip().partition(chr(10))[0]}; check its settings, "
            "or ask for fewer executors, cores or less memory"
        ) from error


def _logging_is_configured(java_options: str) -> bool:
    """Whether Spark finds a log4j2 configuration of its user's."""
    if "log4j" in java_options or "SPARK_LOG4J_CONFIG_FILE_NAME" in os.environ:
        return True
    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    return any(Path(folder).glob("log4j2.*"))


def _end_jvm() -> None:
    """End the JVM that PySpark keeps, whose classpath lacks or has RayDP for good."""
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
    """Wait until RayDP's master actor, which ends on its own, has given its name free."""
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
    """Check the Java that Ray's processes find: they have the PATH of before, and RayDP runs
    ``java``."""
    version = java_version(Path(java).resolve().parent.parent) if java else None
    if version != REQUIRED:
        found = f"Java {version}" if version else "no Java"
        raise UnsupportedError(
            f"Ray is running with {found} on its PATH, and its executors need Java {REQUIRED}: "
            f"put {home / 'bin'} first on PATH before Ray starts",
            version=version,
            required=REQUIRED,
        )
