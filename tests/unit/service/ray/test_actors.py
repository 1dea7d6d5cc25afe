"""What an actor's handle carries, and who asks for an actor that is not there."""

import inspect

import pytest

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import CallLimits
from pkray.storage.location import TableLocation

pytest.importorskip("ray")


def test_handles_carry_no_types_that_another_version_may_lack():
    from pkray.service.ray import actors, hosted, pool

    kinds = actors.OwnerActor, actors.CoordinatorActor, pool.KeeperActor, pool.WorkerActor
    methods = [
        parameters
        for kind in (*kinds, hosted.HostActor)
        for parameters in kind.__ray_metadata__.method_meta.signatures.values()
    ]
    annotations = [each.annotation for parameters in methods for each in parameters]
    types = [each for each in annotations if not isinstance(each, str)]
    assert "CallLimits" in annotations
    assert {each.__module__ for each in types if each is not inspect.Parameter.empty} == {"typing"}


def test_an_owner_that_is_not_there_is_named(monkeypatch):
    from pkray.service.ray import actors

    monkeypatch.setattr(actors, "found_actor", lambda name: None)
    with pytest.raises(ServiceUnavailableError, match=r"owner 1 of table db\.t does not run"):
        actors.owner_client(TableLocation("/no", "db.t"), 1, CallLimits())
