"""Alerts, and the board: what they name is measured, and Prometheus takes it."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import pkray
from pkray.metrics.names import METRICS
from tests.deploy.files import DEPLOY
from tests.deploy.runbook import PAGE

FOLDER = DEPLOY / "prometheus"
ALERTS = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"][0]["rules"]
BOARD = json.loads((FOLDER / "board.json").read_text())
PANELS = [each for each in BOARD["panels"] if each["type"] != "row"]
_ALERT = pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each["alert"])


def named(expression: str) -> set[str]:
    """The metrics that an expression names."""
    found = set(re.findall(r"\bpkray_\w+", expression))
    return {re.sub(r"_(bucket|sum|count)$", "", each) for each in found}


@_ALERT
def test_the_metrics_of_an_alert_are_measured(alert):
    assert named(alert["expr"]) <= set(METRICS)


@_ALERT
def test_the_labels_of_an_alert_are_those_of_its_metrics(alert):
    labels = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
    known = {label for name in named(alert["expr"]) for label in METRICS[name].all_labels}
    assert labels <= known | {"instance"}


@_ALERT
def test_an_alert_has_a_page_in_the_runbook(alert):
    file, _, anchor = alert["annotations"]["runbook"].partition("#")
    headings = re.findall(r"(?m)^#+ (.*)$", PAGE)
    anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    assert file == "deploy/RUNBOOK.md"
    assert anchor in anchors


@_ALERT
def test_an_alert_says_how_urgent_it_is(alert):
    assert alert["labels"]["severity"] in ("warning", "page")


def test_each_metric_has_one_panel():
    """Those of single buckets have none, as they are scraped where somebody asks for them."""
    scraped = sorted(name for name, each in METRICS.items() if not each.is_of_bucket)
    shown = [named(target["expr"]) for each in PANELS for target in each["targets"][:1]]
    assert sorted(name for names in shown for name in names) == scraped


def test_the_board_is_as_its_code_makes_it():
    spec = importlib.util.spec_from_file_location("board", FOLDER / "board.py")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.board() == BOARD, "run python deploy/prometheus/board.py"


def test_panels_do_not_lie_on_each_other():
    taken = [
        (x, y)
        for each in BOARD["panels"]
        for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
        for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


def promtool(*words: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *map(str, words)], input=given, capture_output=True, text=True, timeout=120
    )


@pytest.mark.promtool
def test_prometheus_takes_the_rules():
    done = promtool("check", "rules", FOLDER / "rules.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


@pytest.mark.promtool
def test_alerts_fire_when_they_are_to():
    done = promtool("test", "rules", FOLDER / "rules_test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tried():
    tried = yaml.safe_load((FOLDER / "rules_test.yaml").read_text())["tests"]
    names = {
        case["alertname"]
        for each in tried
        for case in each["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert names == {each["alert"] for each in ALERTS}


@pytest.mark.promtool
def test_prometheus_takes_the_configuration():
    done = promtool("check", "config", "--syntax-only", FOLDER / "prometheus.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_series_of_buckets_are_scraped_once_their_line_counts():
    text = (FOLDER / "prometheus.yaml").read_text()
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert "params" not in job
    (job,) = yaml.safe_load(text.replace("# params:", "params:"))["scrape_configs"]
    assert job["params"] == {"by": ["bucket"]}


@pytest.mark.promtool
def test_prometheus_finds_nothing_to_remark_in_our_metrics(tmp_path):
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", [("k", "INT")], ["k"])
        table.upsert([{"k": 1}])
        table.lookup([{"k": 1}])
        text = catalog.metrics().to_text()
    done = promtool("check", "metrics", given=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
