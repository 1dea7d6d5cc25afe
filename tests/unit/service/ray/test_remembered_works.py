"""What work a pool hosts outlives its keeper."""

from types import SimpleNamespace

import pytest

pytest.importorskip("ray")

from pkray.service.call_limits import CallLimits
from pkray.service.pool.parts import HostedWork
from pkray.service.ray import remembered_works
from pkray.service.ray.remembered_works import RememberedWorks


@pytest.fixture
def kept(monkeypatch) -> dict[bytes, bytes]:
    """What is kept beside the nodes, in the place of Ray's."""
    found: dict[bytes, bytes] = {}

    def delete(key: str, del_by_prefix: bool = False) -> None:
        for each in [k for k in found if k == key.encode() or k.startswith(key.encode())]:
            if del_by_prefix or each == key.encode():
                del found[each]

    fake = SimpleNamespace(
        _internal_kv_put=lambda key, value, overwrite: found.update({key.encode(): value}),
        _internal_kv_get=found.get,
        _internal_kv_list=lambda prefix: [k for k in found if k.startswith(prefix.encode())],
        _internal_kv_del=delete,
    )
    monkeypatch.setattr(remembered_works, "_kv", fake)
    return found


def work(name: str) -> HostedWork:
    return HostedWork(name, b"\x80secret", CallLimits())


def test_the_next_keeper_knows_what_was_kept_and_not_forgotten(kept):
    before, other = RememberedWorks("pool"), RememberedWorks("other")
    for name in ("q", "q/1", "q2"):
        before.keep(work(name))
    other.keep(work("x"))
    before.forget("q")
    assert RememberedWorks("pool").all() == [work("q2")]
    before.forget_all()
    assert RememberedWorks("pool").all() == []
    assert other.all() == [work("x")]


def test_what_another_version_kept_is_left_to_whoever_begins_it_again(kept, caplog):
    works = RememberedWorks("pool")
    works.keep(work("q"))
    kept[b"pool-work-p"] = b"\xc1"
    assert works.all() == [work("q")]
    assert "left to whoever begins it again" in caplog.text
