"""The runner of golden cases notices what differs, and forgives what the format says it may."""

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_case import GoldenCase

_HERE = Path(__file__).parent
Case = dict[str, Any]


def altered(name: str, alter: Callable[[Case], None], folder: Path) -> list[str]:
    case = copy.deepcopy(json.loads((_HERE / "data" / f"{name}.json").read_text()))
    alter(case)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(case))
    return GoldenCase(path).differences(str(folder / "warehouse"))


def step(case: Case, number: int) -> Case:
    return case["result"]["steps"][number]


def content(case: Case) -> None:
    step(case, 1)["content"][0][1] = "other"


def change(case: Case) -> None:
    step(case, 3)["changelog"][0][0] = "+I"


def order_of_a_key(case: Case) -> None:
    changes = step(case, 3)["changelog"]
    changes[0], changes[1] = changes[1], changes[0]


def row_too_many(case: Case) -> None:
    step(case, 1)["content"].append([9, "z", 9])


def snapshot(case: Case) -> None:
    step(case, 1)["snapshots"] = []


def identifier(case: Case) -> None:
    step(case, 1)["snapshots"][0]["identifier"] = 8


def refused_write(case: Case) -> None:
    step(case, 0).update({"error": "refused", "class": "IllegalArgumentException"})


def refused_commit(case: Case) -> None:
    step(case, 1).update({"error": "refused", "class": "IllegalArgumentException"})


def refused_content(case: Case) -> None:
    step(case, 1)["content"] = {"error": "refused", "class": "IllegalArgumentException"}


def refused_creation(case: Case) -> None:
    case["result"] = {"create": {"error": "refused", "class": "IllegalArgumentException"}}


@pytest.mark.parametrize(
    "alter",
    [
        content,
        change,
        order_of_a_key,
        row_too_many,
        snapshot,
        identifier,
        refused_write,
        refused_commit,
        refused_content,
        refused_creation,
    ],
)
def test_a_difference_is_noticed(alter, tmp_path):
    assert altered("dedup_basic_lookup", alter, tmp_path)


def test_a_creation_refused_that_should_pass_is_noticed(tmp_path):
    def unknown_option(case: Case) -> None:
        case["options"]["buckt"] = "1"

    (difference,) = altered("dedup_basic_lookup", unknown_option, tmp_path)
    assert difference.startswith("creation refused")


def test_a_bucket_in_another_place_is_noticed(tmp_path):
    def of_a_write(case: Case) -> None:
        step(case, 0)["buckets"][0] += 1

    def of_the_content(case: Case) -> None:
        step(case, 1)["content_buckets"][0] += 1

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert altered("buckets_bigint", of_a_write, tmp_path / "a")
    assert altered("buckets_bigint", of_the_content, tmp_path / "b")


def test_the_order_of_different_keys_is_forgiven(tmp_path):
    def reverse(case: Case) -> None:
        step(case, 1)["changelog"].reverse()

    assert altered("dedup_basic_lookup", reverse, tmp_path) == []


def test_where_paimon_contradicts_itself_one_of_both_is_enough(tmp_path):
    def changelog(case: Case) -> None:
        change(case)
        case["changelog_replays_to_content"] = False

    def both(case: Case) -> None:
        changelog(case)
        step(case, 3)["content"][0][1] = "other"

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert altered("dedup_basic_lookup", changelog, tmp_path / "a") == []
    assert altered("dedup_basic_lookup", both, tmp_path / "b")


def test_the_program_prints_failures_and_counts(tmp_path):
    for name in ("dedup_sameid", "buckets_bigint"):
        text = (_HERE / "data" / f"{name}.json").read_text()
        (tmp_path / f"{name}.json").write_text(text)
    broken = json.loads((tmp_path / "dedup_sameid.json").read_text())
    step(broken, 1)["content"] = []
    (tmp_path / "dedup_sameid.json").write_text(json.dumps(broken))
    said = subprocess.run(
        [sys.executable, str(_HERE / "run.py"), str(tmp_path)], capture_output=True, text=True
    )
    failure, last = said.stdout.splitlines()
    assert failure.startswith("FAIL dedup_sameid: step 1: content: unexpected [1,")
    assert (last, said.returncode) == ("1 passed, 1 failed", 1)
