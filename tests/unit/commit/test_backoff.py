"""Waits after lost races."""

import random

from pkray.commit.backoff import Backoff


def longest_waits(losses):
    waits = []
    backoff = Backoff(random.Random(7), waits.append)
    for lost in losses:
        for _ in range(200):
            backoff.wait(lost)
    return [max(waits[i * 200 : (i + 1) * 200]) for i in range(len(losses))]


def test_waits_grow_at_first():
    once, twice, four_times = longest_waits([1, 2, 4])
    assert once < 0.02 < twice < 0.04 < 0.12 < four_times < 0.16


def test_who_lost_often_waits_less_than_who_lost_once():
    assert longest_waits([8])[0] < longest_waits([1])[0] < longest_waits([6])[0]
