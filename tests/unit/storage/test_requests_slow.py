from __future__ import annotations

import logging
import time

from pkray.storage.requests import SlowRequests


def test_a_word_comes_once_of_each_request_that_takes_long(caplog):
    slow = SlowRequests(0.2)
    with caplog.at_level(logging.WARNING, "pkray"):
        with slow.watching("read", "s3://lake/quick"):
            pass
        with slow.watching("list", "s3://lake/slow"):
            time.sleep(0.6)
    assert caplog.messages == ["no answer for 0.2 seconds: list s3://lake/slow"]
