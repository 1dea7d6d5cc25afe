"""Whether a process is gone, as others of its machine see it."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("ray")

from pkray.service.ray.deaths import is_gone


def test_a_process_is_gone_when_it_has_ended_whether_or_not_it_was_waited_for():
    assert not is_gone(os.getpid())
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not is_gone(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(process.pid)
    process.communicate()
    assert is_gone(process.pid)
