"""A process that takes more than it may is told, and cannot take far more."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process")

BOUNDED = """
import threading
from pkray.relational.continuous.queries.workers.own_memory import bound_memory

told = threading.Event()
bound_memory(1 << 26, lambda taken: told.set())
"""


def said(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED + program], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def test_what_is_above_the_bound_is_told():
    assert said("taken = b'x' * (1 << 27); print(told.wait(120))") == "True"


def test_what_is_below_the_bound_is_not_told():
    assert said("taken = b'x' * (1 << 24); print(told.wait(1))") == "False"


def test_what_is_far_above_the_bound_cannot_be_allocated():
    program = "\ntry:\n    bytearray(1 << 32)\nexcept MemoryError:\n    print('refused')"
    assert said(program) == "refused"
