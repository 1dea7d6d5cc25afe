"""A program opens the warehouse that settings name."""

import pytest

import pkray
from pkray.errors import OptionError


def test_the_warehouse_of_the_environment_is_opened(tmp_path, monkeypatch):
    monkeypatch.delenv("PKRAY_RAY", raising=False)
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(tmp_path / "w"))
    with pkray.connect_as_set() as catalog:
        assert catalog.warehouse == str(tmp_path / "w")


def test_a_wrong_setting_opens_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(tmp_path / "w"))
    monkeypatch.setenv("PKRAY_OWNER", "3")
    with pytest.raises(OptionError, match="did you mean owners"):
        pkray.connect_as_set()
    assert not (tmp_path / "w").exists()
