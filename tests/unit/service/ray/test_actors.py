"""What an actor's handle carries."""

import inspect

import pytest

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
