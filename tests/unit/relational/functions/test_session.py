"""Functions that tell of the session."""

import getpass

import pytest

import pkray
from pkray.relational.dialect import Dialect
from tests.unit.relational.expressions import type_of, value


@pytest.mark.parametrize("text", ["current_user", "current_user()", "user()", "session_user()"])
def test_the_user_is_that_of_the_process(text: str) -> None:
    assert (value(text), type_of(text)) == (getpass.getuser(), "STRING NOT NULL")


def test_the_release_is_named() -> None:
    assert value("version()") == f"pkray {pkray.__version__}"


@pytest.mark.parametrize("text", ["current_database()", "current_schema()"])
@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_relation_without_a_catalog_is_in_the_default_database(
    text: str, dialect: Dialect
) -> None:
    assert value(text, dialect) == "default"


def test_the_database_is_that_of_the_catalog(tmp_path) -> None:
    with pkray.connect(str(tmp_path)) as catalog:
        catalog.create_database("shop")
        catalog.sql("USE shop")
        found = catalog.sql("SELECT current_database() AS a, current_schema() AS b").to_arrow()
        assert found.to_pylist() == [{"a": "shop", "b": "shop"}]
