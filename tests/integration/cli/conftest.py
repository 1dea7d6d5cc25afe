"""The command line is put together once, as in a process of its own."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import typer.main


@pytest.fixture(scope="package", autouse=True)
def commands() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield
