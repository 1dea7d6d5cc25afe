"""What goes wrong in an actor that hosts work, as those that call it see it."""

from __future__ import annotations

import pytest

from pkray.errors import EvaluationError, ServiceUnavailableError

exceptions = pytest.importorskip("ray.exceptions")


def test_an_error_comes_as_it_was_raised_without_the_actors_traceback():
    from pkray.service.ray.hosted import _error_of

    raised = EvaluationError("1 / 0 divides by zero", operator="3 Calc")
    told = exceptions.RayTaskError("call", "a long traceback", raised).as_instanceof_cause()
    found = _error_of("pkray-query-x", told)
    assert isinstance(found, EvaluationError)
    assert (str(found), found.operator) == ("1 / 0 divides by zero", "3 Calc")


def test_an_actor_that_is_gone_is_not_there():
    from pkray.service.ray.hosted import _error_of

    found = _error_of("pkray-query-x", exceptions.RayActorError())
    assert isinstance(found, ServiceUnavailableError)
