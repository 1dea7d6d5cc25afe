"""The examples run as they stand, without Ray and Spark."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pkray

EXAMPLES = Path(__file__).parents[2] / "examples"
FLIGHTS = 8000
MICROS = 1_000_000


def run(monkeypatch, name, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    return runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def flights():
    """Give flights such as those of examples/flights.py, by chance, so few carriers have many."""
    random = np.random.default_rng(2013)

    def any_of(*values):
        return pa.array(random.choice(values, FLIGHTS))

    delays = pa.array(random.integers(-20, 200, FLIGHTS), pa.int32())
    cancelled = random.random(FLIGHTS) < 0.05
    days = random.integers(0, 365, FLIGHTS) * 86_400
    seconds = 1_356_998_400 + days + random.integers(5, 23, FLIGHTS) * 3600
    scheduled = pa.array(seconds * MICROS, pa.timestamp("us"))
    departed = np.where(cancelled, np.datetime64("NaT"), seconds.astype("datetime64[s]"))
    return pa.table(
        {
            "month": pa.array(np.datetime_as_string(seconds.astype("datetime64[s]"), unit="M")),
            "flight": pa.array(range(FLIGHTS), pa.int32()),
            "carrier": any_of("AA", "B6", "DL", "UA"),
            "origin": any_of("EWR", "JFK", "LGA"),
            "dest": any_of("ATL", "BOS", "ORD"),
            "tailnum": any_of("N1", "N2", "N3"),
            "distance": pa.array(random.integers(200, 2500, FLIGHTS), pa.int32()),
            "scheduled": scheduled,
            "status": pa.array(np.where(cancelled, "cancelled", "arrived")),
            "departed": pa.array(departed.astype("datetime64[us]")),
            "departure_delay": delays,
            "arrival_delay": pa.array(random.integers(-60, 200, FLIGHTS), pa.int32()),
        }
    )


def test_the_questions_are_answered_alike_in_sql_and_by_methods(tmp_path, monkeypatch, capsys):
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table("air.flights", flights().schema, ["flight"])
        table.upsert(flights())
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "queries.py", "--warehouse", str(tmp_path))
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "10. Which airlines never fly to Boston?" in printed
    assert "Endeavor Air Inc." in printed
    assert "JetBlue Airways" not in printed.partition("10. ")[2]


def test_without_the_table_the_questions_say_what_to_run(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "queries.py", "--warehouse", str(tmp_path))
    assert ended.value.code == 1
    assert "run python examples/flights.py first" in " ".join(capsys.readouterr().out.split())


def test_the_quickstart_runs(monkeypatch, capsys):
    run(monkeypatch, "quickstart.py")
    assert capsys.readouterr().out


def test_change_events_come_to_the_source_s_rows(monkeypatch, capsys):
    run(monkeypatch, "change_events.py")
    counted, rows, errors, found, left = capsys.readouterr().out.splitlines()
    assert counted == "4 changes, 1 bad record"
    assert rows == "[{'id': 1, 'name': 'Ada L.', 'bio': 'a very long text', 'lsn': 12}]"
    assert "'record': 4" in errors
    assert "Ada Lovelace" in found
    assert left == "0 rows are left"


def test_a_topic_is_read_behind_its_offsets(monkeypatch, capsys):
    run(monkeypatch, "topics.py")
    first, second, left = capsys.readouterr().out.splitlines()
    assert (first, second) == ("1000 changes", "900 changes")
    assert left.startswith("100 rows, offsets {0: ")


@pytest.mark.slow
def test_the_dashboard_is_proved_when_all_flights_are_in(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    output = str(tmp_path / "output")
    run(monkeypatch, "dashboard.py", "--feed", "python", "--rows", "600", "--output", output)
    printed = " ".join(capsys.readouterr().out.split())
    kept = ("carriers", "worst_routes", "delayed", "in_weather", "hourly", "aircraft")
    for name in (f"air.{each}" for each in kept):
        assert f"{name}: equal at snapshot" in printed
