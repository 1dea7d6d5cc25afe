"""The Java that Spark needs, found and checked before anything starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pkray.errors import ServiceUnavailableError, UnsupportedError

REQUIRED = 17
"""The Java version that Spark 4 and RayDP run on together."""

_INSTALLED = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
)
_ROOT = Path("/")
_REMEDY = (
    f"install Java {REQUIRED} (Debian and Ubuntu: apt install openjdk-{REQUIRED}-jre-headless; "
    f"macOS: brew install openjdk@{REQUIRED}) or point JAVA_HOME at one"
)


def require_java() -> Path:
    """The home of a Java 17, from JAVA_HOME, PATH or where systems install it.

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
    """`require_java`, made the Java of this process and of those that it starts."""
    home = require_java()
    binaries = str(home / "bin")
    path = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["JAVA_HOME"] = str(home)
    if path[0] != binaries:
        os.environ["PATH"] = os.pathsep.join([binaries, *(p for p in path if p != binaries)])
    return home


def java_version(home: Path) -> int | None:
    """The major version of the Java there; None where it does not run."""
    try:
        answer = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"]).resolve()
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in _INSTALLED:
        yield from (Path(home).resolve() for home in sorted(_ROOT.glob(pattern.lstrip("/"))))
