"""One file says how a warehouse is, without rows and secrets; the console shows it elsewhere."""

import stat
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

import pkray
from pkray.cli import main
from pkray.inspection import Diagnosis
from pkray.serving.guard import Access
from pkray.serving.server import recorded_application
from pkray.storage.secrets import hide

TOKEN = "t0ken-that-nobody-guesses"
OPTION, AROUND, LOGGED, SIGNED = "0ption-s3cret", "ar0und-s3cret", "l0gged-s3cret", "s1gned-s3cret"
ROW, LITERAL, PART = "Grace-of-a-row", "Ada-of-a-filter", "north-of-a-partition"
LOG = f"""INFO connecting with password={LOGGED}
ERROR the value '{ROW}' is none of 'q.s'
INFO read https://store/x?X-Amz-Signature={SIGNED} with {OPTION} and {AROUND}
"""
_WAIT_SECONDS = 120.0


@pytest.fixture
def warehouse(catalog: pkray.Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[pkray.Catalog]:
    """A table with partitions, a query that filters, and secrets wherever there may be some."""
    table = catalog.create_table(
        "q.s",
        [("area", "STRING"), ("name", "STRING")],
        ["area", "name"],
        partition_keys=["area"],
        options={"bucket": "1", "changelog-producer": "lookup"},
    )
    table.upsert([{"area": PART, "name": ROW}])
    catalog.sql(f"SET 'query.failure-url' = 'https://hooks.example/{LOGGED}'")
    text = f"SELECT area, COUNT(*) AS n FROM q.s WHERE name <> '{LITERAL}' GROUP BY area"
    query = catalog.sql(text).materialize("q.r")
    query.wait({"q.s": table.latest_snapshot().id}, _WAIT_SECONDS)
    monkeypatch.setenv("SHOP_DB_PASSWORD", AROUND)
    options = property(lambda _: hide({"secret_access_key": OPTION}))
    monkeypatch.setattr(pkray.Catalog, "storage_options", options)
    service = SimpleNamespace(
        logs=lambda lines: {"worker-0": LOG},
        dashboard="http://127.0.0.1:8265",
        status=lambda: SimpleNamespace(to_arrow=lambda: _no_places()),
        _processes=list,
    )
    monkeypatch.setattr(pkray.Catalog, "service", lambda _: service)
    yield catalog
    monkeypatch.undo()
    query.drop()


def _no_places() -> Any:
    import pyarrow as pa

    return pa.table({"kind": pa.array([], pa.string())})


@pytest.fixture
def file(warehouse: pkray.Catalog, tmp_path: Path) -> Path:
    return pkray.diagnose(warehouse, tmp_path / "found.zip")


def test_the_file_has_no_row_and_no_secret(file):
    with zipfile.ZipFile(file) as parts:
        texts = {name: parts.read(name).decode() for name in parts.namelist()}
    assert {"about.json", "home.json", "cluster.json", "metrics.txt", "logs/0.json"} <= set(texts)
    for name, text in texts.items():
        for planted in (OPTION, AROUND, LOGGED, SIGNED, ROW, LITERAL, PART):
            assert planted not in text, (name, planted)


def test_the_file_is_its_owners_alone(file):
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_file_says_what_tables_queries_and_processes_do(file):
    found = Diagnosis(file)
    assert found.about.versions["pkray"] == pkray.__version__
    assert {each["name"] for each in found.home()["tables"]} >= {"q.s", "q.r"}
    (bucket,) = found.table("q.s")["buckets"]
    assert bucket["partition"] == "partition 0"
    assert "aggregate" in {node["type"] for node in found.query("q.r")["graph"]["nodes"]}
    assert "'q.s'" in found.logs()["worker-0"]
    assert "pkray_table_rows" in found.metrics()
    assert found.cluster()["dashboard"] is None  # it leads nowhere elsewhere


def test_nothing_that_is_there_is_overwritten(catalog, tmp_path):
    (tmp_path / "there").write_text("mine")
    with pytest.raises(pkray.OptionError, match="is there already"):
        pkray.diagnose(catalog, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "mine"


def test_a_folder_that_is_not_there_is_named(catalog, tmp_path):
    with pytest.raises(pkray.StorageError, match="cannot be written"):
        pkray.diagnose(catalog, tmp_path / "none/found.zip")


def test_what_cannot_be_read_is_an_error_in_the_file(catalog, tmp_path):
    table = catalog.create_table("q.s", [("k", "INT")], ["k"])
    table.upsert([{"k": 1}])
    for path in tmp_path.glob("q.db/s/manifest/manifest-list-*"):
        path.write_bytes(b"damaged")
    found = Diagnosis(pkray.diagnose(catalog, tmp_path / "found.zip"))
    assert "error" in found.table("q.s")


@pytest.fixture
def web(file: Path) -> TestClient:
    served = recorded_application(Diagnosis(file), Access(TOKEN))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return TestClient(served, base_url="http://localhost:8470", headers=headers)


def test_the_console_shows_what_the_file_has(web):
    assert web.get("/api/access").json()["recorded"]["versions"]["pkray"] == pkray.__version__
    for path in ("/", "/api/home", "/api/cluster", "/api/tables/q.s", "/api/queries/q.r"):
        assert web.get(path).status_code == 200, path
    assert "worker-0" in web.get("/api/logs").json()["logs"]
    assert "pkray_table_rows" in web.get("/metrics").text


@pytest.mark.parametrize(
    "path", ["/api/tables/q.none", "/api/queries/q.none", "/api/tables/q.s/rows"]
)
def test_what_the_file_does_not_have_is_not_found(web, path):
    assert web.get(path).status_code == 404


def test_a_file_is_shown_to_those_alone_who_have_the_token(web):
    del web.headers["Authorization"]
    assert web.get("/api/home").status_code == 401


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no zip at all"])
def test_a_file_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(pkray.CorruptFileError, match="no diagnosis"):
        Diagnosis(tmp_path / "x.zip")


@pytest.mark.parametrize(("about", "said"), [({}, "no diagnosis"), ({"format": 99}, "format 99")])
def test_a_file_of_something_else_or_newer_is_refused(file, tmp_path, about, said):
    with zipfile.ZipFile(file) as parts:
        whole = msgspec.json.decode(parts.read("about.json"))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as parts:
        parts.writestr("about.json", msgspec.json.encode(about and whole | about))
    with pytest.raises(pkray.CorruptFileError, match=said):
        Diagnosis(tmp_path / "other.zip")


def test_the_commands_write_a_file_and_show_it(tmp_path, capsys):
    with pkray.connect(tmp_path / "w") as catalog:
        catalog.create_table("d.t", [("k", "INT")], ["k"])
    file = tmp_path / "found.zip"
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", str(tmp_path / "w"), "-o", str(file), "--json"])
    assert not ended.value.code
    assert msgspec.json.decode(capsys.readouterr().out)["file"] == str(file)
    words = [sys.executable, "-m", "pkray", "ui", str(file), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        cookies = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        cookies.open(address, timeout=_WAIT_SECONDS).close()
        root = address.partition("/?")[0]
        with cookies.open(f"{root}/api/tables/d.t", timeout=_WAIT_SECONDS) as page:
            assert msgspec.json.decode(page.read())["name"] == "d.t"
    finally:
        process.kill()
        process.wait(_WAIT_SECONDS)
