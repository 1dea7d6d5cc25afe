import threading
import time

import pytest

from pkray.lookup import lookups_first
from pkray.lookup.lookups_first import LookupsFirst


def test_nobody_waits_where_no_lookup_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups_first, "PIECE_WAIT_SECONDS", 300)
    first = LookupsFirst()
    with first.looking_up():
        pass
    started = time.monotonic()
    first.let_go_first()
    assert time.monotonic() - started < 200


def test_a_copy_waits_for_the_last_of_the_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups_first, "PIECE_WAIT_SECONDS", 300)
    first = LookupsFirst()
    copier = threading.Thread(target=first.let_go_first)
    with first.looking_up():
        with first.looking_up():
            copier.start()
        copier.join(0.2)
        assert copier.is_alive()
    copier.join(120)
    assert not copier.is_alive()


def test_a_copy_goes_on_though_lookups_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups_first, "PIECE_WAIT_SECONDS", 0.01)
    first = LookupsFirst()
    with first.looking_up():
        copier = threading.Thread(target=first.let_go_first)
        copier.start()
        copier.join(120)
        assert not copier.is_alive()
