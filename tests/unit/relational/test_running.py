"""Bounded runs: what is fixed before a plan runs."""

from __future__ import annotations

import itertools

import pytest

from pkray.relational import from_arrow


def test_the_time_of_a_run_is_one_for_all_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(1)
    monkeypatch.setattr("time.time_ns", lambda: next(seconds) * 10**9)
    query = from_arrow({"x": [1, 2]}).filter("now() = now()").select("now() AS a")
    first, second = (query.to_arrow()["a"].to_pylist() for _ in range(2))
    assert len(first) == len(second) == 2
    assert len(set(first)) == 1
    assert first[0] < second[0]
