"""``pkray tag``, ``branch``, ``rollback`` and the moments of ``scan`` and ``lookup``."""

import pytest

import pkray
from tests.integration.cli.conftest import lines


@pytest.fixture
def run(tmp_path, command, monkeypatch):
    """Runs a command; its JSON lines, or its error."""
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(tmp_path))
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table("db.t", [("k", "BIGINT"), ("v", "STRING")], ["k"])
        for turn in range(3):
            table.upsert([{"k": turn, "v": f"turn {turn}"}])

    def run(*words: str):
        code, out, err = command(*words, "--json")
        return err if code else lines(out)

    return run


def keys(lines):
    return sorted(line["k"] for line in lines)


def test_tags(run):
    assert run("tag", "create", "db.t", "one", "--snapshot", "1") == [{"tag": "one", "snapshot": 1}]
    assert run("tag", "create", "db.t", "new", "--time-retained", "7 d")[0]["snapshot"] == 3
    listed = run("tag", "list", "db.t")
    assert [(line["tag_name"], line["snapshot_id"]) for line in listed] == [("new", 3), ("one", 1)]
    assert listed[0]["time_retained"] == "PT168H"
    assert "tag 'one'" in run("tag", "create", "db.t", "one")
    assert run("tag", "create", "db.t", "one", "--if-not-exists")[0]["snapshot"] == 1
    assert keys(run("scan", "db.t", "--tag", "one")) == [0]
    assert keys(run("lookup", "db.t", "-k", "k=0", "-k", "k=2", "--tag", "one")) == [0]
    assert run("tag", "delete", "db.t", "one") == [{"deleted": "one"}]
    assert "its tags are new" in run("scan", "db.t", "--tag", "one")


def test_moments(run):
    times = [line["commit_time"] for line in run("snapshots", "db.t")]
    assert keys(run("scan", "db.t", "--timestamp", times[-1])) == [0, 1, 2]
    assert keys(run("scan", "db.t", "--timestamp", "9999999999999")) == [0, 1, 2]
    assert "no snapshot of" in run("scan", "db.t", "--timestamp", "2001-01-01 10:00")
    assert "is no time" in run("scan", "db.t", "--timestamp", "soon")
    assert "name a snapshot each" in run("scan", "db.t", "--snapshot", "1", "--tag", "x")
    assert keys(run("lookup", "db.t", "-k", "k=0", "-k", "k=1", "--snapshot", "1")) == [0]
    assert "committed" in run(
        "lookup", "db.t", "-k", "k=0", "--snapshot", "1", "--visibility", "latest"
    )


def test_branches(run, tmp_path):
    run("tag", "create", "db.t", "two", "--snapshot", "2")
    made = run("branch", "create", "db.t", "b", "--tag", "two")
    assert made == [{"table": "db.t$branch_b", "snapshot": 2}]
    run("branch", "create", "db.t", "empty")
    assert [line["branch_name"] for line in run("branch", "list", "db.t")] == ["b", "empty"]
    (tmp_path / "rows.csv").write_text("k,v\n9,branch\n")
    run("upsert", "db.t$branch_b", str(tmp_path / "rows.csv"))
    assert keys(run("scan", "db.t$branch_b")) == [0, 1, 9]
    assert keys(run("scan", "db.t")) == [0, 1, 2]
    assert run("branch", "fast-forward", "db.t", "b") == [{"table": "db.t", "snapshot": 3}]
    assert keys(run("scan", "db.t")) == [0, 1, 9]
    run("branch", "delete", "db.t", "empty")
    assert [line["branch_name"] for line in run("branch", "list", "db.t")] == ["b"]
    assert "its branches are b" in run("branch", "delete", "db.t", "empty")


def test_rollback(run):
    run("tag", "create", "db.t", "new")
    (report,) = run("rollback", "db.t", "--snapshot", "1")
    assert report.pop("deleted_files") > 0
    assert report == {"snapshot": 1, "removed_snapshots": [2, 3], "removed_tags": ["new"]}
    assert keys(run("scan", "db.t")) == [0]
    assert "give one of them" in run("rollback", "db.t")
