"""Have lives played in the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.faults.lives.life import stage


@pytest.fixture(scope="module", autouse=True)
def on_stage() -> Iterator[None]:
    with stage():
        yield
