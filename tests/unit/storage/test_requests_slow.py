from __future__ import annotations

import logging
import time

from pkray.storage.requests import SlowRequests


def test_a_word_comes_once_of_each_request_that_takes_long(caplog):
    slow = SlowRequests(0.5)
    with caplog.at_level(logging.WARNING, "pkray"):
        with slow.watching("read", "s3://lake/quick"):
            pass
        with slow.watching("list", "s3://lake/slow"):
            end = time.monotonic() + 120
            while not caplog.messages and time.monotonic() < end:
                time.sleep(0.01)
    assert caplog.messages == ["no answer for 0.5 seconds: list s3://lake/slow"]
