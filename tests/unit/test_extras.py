"""Packages that only some need: what is said where they are not there."""

import pickle

import pytest

import pkray
import pkray.spark
from pkray import extras
from pkray.errors import MissingExtraError, PkrayError, UnsupportedError
from pkray.spark import sessions


def test_a_package_that_is_there_is_no_error():
    extras.require_extra("test", "pytest", "this test")


def test_the_error_names_who_needs_what_and_the_extra_that_brings_it(hidden):
    hidden.add("ray")
    with pytest.raises(
        MissingExtraError, match=r"^runtime 'ray' needs .* 'ray', .*pip install 'pkray\[ray\]'$"
    ) as caught:
        pkray.connect("nowhere", runtime="ray")
    assert (caught.value.extra, caught.value.package) == ("ray", "ray")


def test_the_error_is_an_import_error_that_survives_pickling(hidden):
    hidden.add("pandas")
    with pytest.raises(ImportError) as caught:
        extras.require_extra("pandas", "pandas", "to_pandas()")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, PkrayError)
    assert (str(again), again.extra) == (str(caught.value), "pandas")


def test_without_raydp_the_error_says_what_goes_on_without_it(hidden):
    hidden.add("raydp")
    with pytest.raises(MissingExtraError, match=r"'pkray\[spark\]'; without ray=True"):
        sessions._on_ray("app", 1, 1, "1g", {})


def test_dir_lists_spark_where_it_is_installed(monkeypatch):
    assert "spark" in dir(pkray)
    monkeypatch.setattr(pkray, "is_installed", lambda package: False)
    assert "spark" not in dir(pkray)


@pytest.mark.parametrize("name", ["read", "read_stream", "register"])
def test_reads_are_refused_where_spark_has_no_python_data_sources(monkeypatch, name):
    monkeypatch.setattr(pkray.spark, "is_installed", lambda package: False)
    with pytest.raises(UnsupportedError, match=f"{name} needs Spark 4 or newer"):
        getattr(pkray.spark, name)
