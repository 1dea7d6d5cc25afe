"""How a query is shown while it runs."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from pkray.relational.continuous.queries import live_view

NODE = {
    "id": 3,
    "type": "Aggregate",
    "rows_in": 1200,
    "rows_out": 10,
    "seconds": 0.5,
    "state_rows": {"groups": 10},
    "state_bytes": {"groups": 2_000_000},
}


def status(state="running", **more):
    return {
        "state": state,
        "epoch": 3,
        "failure": None,
        "sources": {"default.t": 7, "default.u": 2},
        "nodes": [NODE],
        **more,
    }


def test_a_drawing_says_how_far_the_query_is_behind_and_what_it_waits_for():
    drawn = live_view.drawn(
        "default.r",
        status(
            lag={
                "default.t": {"snapshots": 2, "seconds": 1.26},
                "default.u": {"snapshots": 0, "seconds": 0.0},
            },
            untold={"default.u": {"snapshot": 3, "full": True}},
            watermarks={"default.t": 1_700_000_000_000},
            late=1234,
        ),
    )
    assert drawn.title == "default.r: running, epoch 3, 1,234 rows came late"
    assert drawn.caption == (
        "default.t at 7, event time 2023-11-14 22:13:20.000, 2 snapshots and 1.3 s behind\n"
        "default.u at 2, up to 3 when it is compacted fully"
    )


def test_names_that_are_markup_stay_text():
    found = live_view.html_of("<b>r", status("failed", failure="<script>x</script>"))
    assert "&lt;b&gt;r: failed" in found
    assert "&lt;script&gt;" in found
    assert "<script" not in found
    assert "<td>Aggregate</td><td>1,200</td><td>10</td>" in found


@pytest.fixture
def no_waiting(monkeypatch):
    """Time passes as it is slept away; Ctrl+C comes after so many seconds."""
    clock = SimpleNamespace(now=0.0, interrupted_at=1e9)

    def sleep(seconds):
        clock.now += seconds
        if clock.now >= clock.interrupted_at:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        live_view, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    )
    return clock


def test_it_is_shown_until_it_ends(no_waiting, capsys):
    seen = [status(), status(), status("ended")]
    assert live_view.follow("default.r", lambda: seen.pop(0))
    assert seen == []
    assert "default.r: ended" in capsys.readouterr().out


def test_it_is_shown_for_so_long_at_most(no_waiting):
    assert live_view.follow("default.r", status, seconds=2.5)
    assert no_waiting.now == 2.5


def test_ctrl_c_ends_the_showing(no_waiting):
    no_waiting.interrupted_at = 3
    assert not live_view.follow("default.r", status)


def test_a_notebook_has_one_output_that_changes(no_waiting, monkeypatch):
    shown = []
    display = ModuleType("IPython.display")
    display.HTML = str
    handle = SimpleNamespace(update=shown.append)
    display.display = lambda text, display_id: shown.append(text) or handle
    notebook = ModuleType("IPython")
    notebook.get_ipython = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    seen = [status(epoch=epoch) for epoch in (1, 2)] + [status("stopped")]
    live_view.follow("default.r", lambda: seen.pop(0))
    assert ["epoch 1" in shown[0], "epoch 2" in shown[1], "stopped" in shown[2]] == [True] * 3
