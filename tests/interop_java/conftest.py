"""One Java process for all tests of this package; it must be there where CI is set."""

import os
import subprocess
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from pkray.errors import PkrayError
from pkray.storage.parquet import writer as parquet_writer
from tests.interop_java.both import Both
from tests.interop_java.java_core import JavaCore, find_jar


@pytest.fixture(scope="package")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCore]:
    try:
        core = JavaCore(find_jar(), tmp_path_factory.mktemp("java"))
    except (OSError, PkrayError, subprocess.SubprocessError) as error:
        reason = f"the Java core 0.9.0 cannot be had: {error}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    yield core
    core.close()


@pytest.fixture(autouse=True)
def shared_columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every second test small files have keys that are encoded once, as large ones have."""
    if zlib.crc32(request.node.name.encode()) % 2:
        monkeypatch.setattr(parquet_writer, "SHARED_ROWS", 1)


@pytest.fixture
def make(core: JavaCore, tmp_path: Any) -> Iterator[Any]:
    """Tables that pkray and the Java core share; arguments as of `Both`."""
    made: list[Both] = []

    def create(*arguments: Any, **named: Any) -> Both:
        made.append(Both(core, tmp_path / f"warehouse{len(made)}", *arguments, **named))
        return made[-1]

    yield create
    for both in made:
        both.close()
