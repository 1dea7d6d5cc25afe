"""Call the command line, which is put together once, as in a process of its own."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import typer.main

from pkray.cli import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="package", autouse=True)
def commands() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command line with some words; give its exit code, what it prints and its errors."""

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def run(command: Command) -> Callable[..., str]:
    """Run a command that ends as is said; give what it prints, or its errors."""

    def run(*words: object, code: int = 0) -> str:
        ended, out, err = command(*words)
        assert ended == code, err
        return err if code else out

    return run


def lines(text: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in text.splitlines()]
