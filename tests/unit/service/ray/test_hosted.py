"""What goes wrong in an actor that hosts work, as those that call it see it."""

import pytest

from pkray.errors import EvaluationError, ServiceUnavailableError

exceptions = pytest.importorskip("ray.exceptions")


def test_an_error_comes_as_it_was_raised_without_the_actors_traceback():
    from pkray.service.ray.hosted import error_of

    raised = EvaluationError("1 / 0 divides by zero", operator="3 Calc")
    told = exceptions.RayTaskError("call", "a long traceback", raised).as_instanceof_cause()
    found = error_of("pkray-query-x", told)
    assert isinstance(found, EvaluationError)
    assert (str(found), found.operator) == ("1 / 0 divides by zero", "3 Calc")


def test_an_actor_that_is_gone_is_not_there():
    from pkray.service.ray.hosted import error_of

    found = error_of("pkray-query-x", exceptions.RayActorError())
    assert isinstance(found, ServiceUnavailableError)


def test_an_actor_that_has_answered_may_be_silent_for_as_long_as_a_call_may_take():
    from pkray.service.ray.hosted import Silence

    now = [0.0]
    silence = Silence(60, lambda: now[0])
    silence.heard()
    now[0] = 500.0  # nobody asked
    assert silence.left() == 60
    now[0] = 530.0
    assert silence.left() == 30
    silence.heard()
    now[0] = 600.0
    assert silence.left() == 60


def test_an_actor_that_may_be_starting_is_waited_for_longer():
    from pkray.service.ray.hosted import Silence

    silence = Silence(60, lambda: 0.0)
    assert (silence.left(), silence.most_if_heard) == (120, 0)
    silence.heard()
    assert (silence.left(), silence.most_if_heard) == (60, 60)
    silence.began_anew()
    assert (silence.left(), silence.most_if_heard) == (120, 0)
