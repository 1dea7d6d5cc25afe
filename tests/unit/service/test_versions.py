"""Versions that are next to each other understand each other; others are told which to upgrade."""

import pytest

from pkray.errors import ServiceVersionError
from pkray.service import versions
from pkray.service.versions import Spoken, check_service, check_understood


@pytest.mark.parametrize("service", [6, 7, 8])
def test_a_caller_understands_services_of_its_own_number_and_those_next_to_it(service):
    check_understood(Spoken(7, "7.0"), Spoken(service, f"{service}.0"))


@pytest.mark.parametrize(
    ("caller", "service", "remedy"),
    [(5, 7, "upgrade the caller to pkray 7.0"), (7, 5, "install pkray 7.0 where the service runs")],
)
def test_who_is_too_old_is_named_with_both_versions(caller, service, remedy):
    with pytest.raises(ServiceVersionError, match=remedy) as caught:
        check_understood(Spoken(caller, f"{caller}.0"), Spoken(service, f"{service}.0"))
    assert f"(pkray {caller}.0) speaks protocol {caller}" in str(caught.value)
    assert f"(pkray {service}.0) {service}" in str(caught.value)
    assert (caught.value.caller, caught.value.service) == (caller, service)


def test_a_service_that_knows_of_no_greeting_is_the_oldest():
    class Old:
        pass

    with pytest.raises(ServiceVersionError, match="service restart"):
        check_service(lambda caller: Old().greet(caller))


def test_a_service_refuses_a_caller_that_does_not_look_at_its_answer(monkeypatch):
    caller = Spoken(versions.PROTOCOL + 2, "9.9")
    with pytest.raises(ServiceVersionError, match=r"install pkray 9\.9"):
        versions.answered(caller)
