"""Joining a Ray cluster."""

import logging

import ray

from pkray.service.ray import cluster


def test_joining_is_quiet_and_leaves_rays_log_as_it_was(monkeypatch, caplog):
    logger = logging.getLogger("ray.anywhere")
    monkeypatch.setattr(ray, "init", lambda **_: logger.warning("token authentication is on"))
    before = logging.getLogger("ray").level
    monkeypatch.setattr(cluster, "knock", lambda _: None)
    cluster.join("auto")
    logger.warning("something later")
    assert [record.message for record in caplog.records] == ["something later"]
    assert logging.getLogger("ray").level == before
