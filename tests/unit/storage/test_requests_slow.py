import logging

from pkray.storage.requests import SlowRequests
from tests.waiting import wait_until


def test_a_word_comes_once_of_each_request_that_takes_long(caplog):
    slow = SlowRequests(0.5)
    with caplog.at_level(logging.WARNING, "pkray"):
        with slow.watching("read", "s3://lake/quick"):
            pass
        with slow.watching("list", "s3://lake/slow"):
            wait_until(lambda: caplog.messages)
    assert caplog.messages == ["no answer for 0.5 seconds: list s3://lake/slow"]
