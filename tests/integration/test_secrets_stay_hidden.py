"""Nothing that a job writes or shows has the keys of its object store, be it that it fails."""

import gc
import logging
import os
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pkray
from tests.integration.misbehaving_endpoint import MisbehavingEndpoint, misbehaving, says

ACCESS_KEY = "AKIAHIDDENHIDDEN"
SECRET = "hidden/Secret+Value/9876"
TOKEN = "hidden-session-token"
WORDS = (ACCESS_KEY, SECRET, "Secret%2BValue", TOKEN)
SCHEMA = [("id", "BIGINT NOT NULL"), ("v", "STRING")]


def check(text: str | bytes, where: object) -> None:
    """Fail if a secret is in what was written there."""
    data = text.encode(errors="replace") if isinstance(text, str) else text
    found = [word for word in WORDS if word.encode() in data]
    assert not found, f"{found} in {where}"


def check_error(error: BaseException) -> None:
    """Look through all that an error, its values and those below it say."""
    check("".join(traceback.format_exception(error)), "the traceback")
    seen: list[BaseException | None] = [error]
    for each in seen:
        if each is None:
            continue
        check(f"{each!r} {each} {each.args!r} {vars(each)!r}", repr(type(each)))
        seen += [below for below in (each.__cause__, each.__context__) if below not in seen]


def check_objects(before: set[int]) -> None:
    """Look at the representation of every object of pkray and obstore but those, by id."""
    kinds = set()
    for each in gc.get_objects():
        kind = type(each)
        if id(each) not in before and str(kind.__module__).split(".")[0] in ("pkray", "obstore"):
            kinds.add(kind.__qualname__)
            check(f"{each!r} {each!s}" if kind.__qualname__ != "Secret" else repr(each), kind)
    assert {"Catalog", "Table", "TableLocation", "RemoteStore", "Secret"} <= kinds


def check_folder(folder: Path) -> int:
    """Look through the files of a folder, and whether they are this user's alone."""
    count = 0
    for path in (folder, *folder.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir():
            assert mode == 0o700, (path, oct(mode))
        else:
            count += 1
            check(path.read_bytes(), path)
            if "rocksdb" not in path.parts:  # RocksDB makes its own, in a private folder
                assert mode == 0o600, (path, oct(mode))
    return count


@pytest.fixture
def options(endpoint: str) -> dict[str, str]:
    return {
        "endpoint": endpoint,
        "region": "us-east-1",
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET,
        "session_token": TOKEN,
    }


@pytest.fixture(scope="module")
def bucket(s3: Any) -> str:
    s3.create_bucket(Bucket="hidden")
    return "hidden"


@pytest.fixture
def refusing(endpoint: str) -> Iterator[MisbehavingEndpoint]:
    """An endpoint that repeats what it is told, as S3 does with the key of a request."""
    with misbehaving(endpoint) as broken:
        broken.spoil("*", says(403, "InvalidAccessKeyId", f"{ACCESS_KEY} {SECRET}"), always=True)
        yield broken


def create(catalog: pkray.Catalog) -> pkray.Table:
    return catalog.create_table("d.t", SCHEMA, ["id"])


def work(catalog: pkray.Catalog, name: str) -> pkray.Table:
    table = catalog.create_table(
        name, SCHEMA, ["id"], options={"bucket": "2", "changelog-producer": "lookup"}
    )
    with table.open_writer("u") as writer:
        for number in range(2):
            writer.upsert([{"id": n, "v": str(number)} for n in range(50)])
            writer.commit()
        writer.upsert([{"id": 1, "v": "again"}])
        table.lookup([{"id": 1}])
        writer.commit()
    table.compact(full=True)
    table.lookup([{"id": 1}], visibility="committed")
    table.tags.create("t")
    return table


def test_a_working_job_shows_no_secret(bucket, s3, options, tmp_path, caplog, capfd):
    local = tmp_path / "local"
    settings = {"local_directory": str(local)}
    others = gc.get_objects()  # of tests before: some raise when they are shown
    before = {id(each) for each in others}
    with (
        caplog.at_level(logging.DEBUG),
        pkray.connect(f"s3://{bucket}/works", runtime_options=settings, **options) as catalog,
    ):
        table = work(catalog, "db.t")
        writer = table.open_writer("open")
        writer.upsert([{"id": 7, "v": "waits"}])
        shown = [catalog, table, table.location, writer, table.branches, table.snapshots()]
        check(repr(shown) + str(table.explain()) + repr(table.splits()), "representations")
        check_objects(before)
        assert check_folder(local / "embedded") > 1
        writer.close()
    check(caplog.text, "the log")
    check("".join(capfd.readouterr()), "the output")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix="works/")["Contents"]
    for each in listed:
        check(s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read(), each["Key"])
    assert len(listed) > 10


def failing(url: str, options: dict[str, str], refusing: str) -> dict[str, Callable[[], object]]:
    refused = {**options, "endpoint": refusing}

    def on(**changed: Any) -> Callable[[], object]:
        return lambda: pkray.connect(url, **{**options, **changed}).list_tables()

    return {
        "denied": lambda: pkray.connect(url, **refused).list_tables(),
        "table denied": lambda: pkray.connect(url, **refused).load_table("db.t"),
        "creation denied": lambda: pkray.connect(url, **refused).create_table(
            "d.t", SCHEMA, ["id"]
        ),
        "no table": lambda: pkray.connect(url, **options).load_table("db.none"),
        "no host": on(endpoint="http://x.invalid", max_retries="0"),
        "no server": on(endpoint="http://127.0.0.1:9", max_retries="0"),
        "no bucket": lambda: pkray.connect("s3://hidden-none", **options).list_tables(),
        "keys in the URL": lambda: pkray.connect(f"s3://{ACCESS_KEY}:{SECRET}@{url[5:]}"),
        "other scheme": lambda: pkray.connect(f"hdfs://{ACCESS_KEY}:{SECRET}@host/x"),
        "signed URL": lambda: pkray.connect(f"{url}?X-Amz-Security-Token={TOKEN}"),
        "keys in the endpoint": on(endpoint=f"http://{ACCESS_KEY}:{SECRET}@127.0.0.1:9"),
        "endpoint": on(endpoint=SECRET),
        "bytes": on(secret_access_key=SECRET.encode()),
        "tuple": on(secret_access_key=(SECRET,)),
        "timeout": on(timeout=SECRET),
        "retry_timeout": on(retry_timeout=SECRET),
        "proxy": on(proxy_url=f"http://{ACCESS_KEY}:{SECRET}@x.invalid", max_retries="0"),
        "unknown": on(secret=SECRET, secret_key=SECRET),
        "key for name": on(**{SECRET: "x"}),
        "local": lambda: pkray.connect("/nowhere", secret_access_key=SECRET),
    }


def test_failing_jobs_show_no_secret(bucket, options, refusing, caplog, capfd):
    url = f"s3://{bucket}/fails"
    for name, call in failing(url, options, refusing.url).items():
        with caplog.at_level(logging.DEBUG), pytest.raises(pkray.PkrayError) as caught:
            call()
        check_error(caught.value)
        assert str(caught.value), name
    check(caplog.text, "the log")
    check("".join(capfd.readouterr()), "the output")


def test_what_obstore_takes_from_the_environment_is_hidden(bucket, refusing, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for endpoint in (refusing.url, f"http://u:{TOKEN}@127.0.0.1:9"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        with pytest.raises(pkray.StorageError) as caught:
            pkray.connect(f"s3://{bucket}/x", max_retries="0").list_tables()
        check_error(caught.value)


def run_cli(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pkray", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "COLUMNS": "400"},
    )
    return f"{done.returncode}\n{done.stdout}\n{done.stderr}"


def test_the_command_line_shows_no_secret_even_to_those_who_debug(bucket, options, refusing):
    refused = {**options, "endpoint": refusing.url}
    storage = [word for key, value in refused.items() for word in ("--storage", f"{key}={value}")]
    said = run_cli("--debug", "tables", "-w", f"s3://{bucket}/x", *storage)
    assert "Traceback" in said
    assert "check the keys and rights" in said
    check(said, "the command line")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--storage", SECRET], "--storage takes KEY=VALUE"),
        (["--storage", f"={SECRET}"], "--storage takes KEY=VALUE"),
        (["--storage", f"token={SECRET}", "--storage", f"token={SECRET}"], "twice"),
        (["--storage", f"endpoint={SECRET}"], "'endpoint' is no URL"),
        (["--storage", f"{SECRET}=="], "unknown storage option"),
        (["-w", f"s3://{ACCESS_KEY}:{SECRET}@b/x"], "a user, a password or a query"),
    ],
)
def test_the_command_line_does_not_repeat_what_it_refuses(arguments, message, capsys):
    from pkray.cli import main

    with pytest.raises(SystemExit):
        main(["tables", "-w", "s3://hidden/x", *arguments])
    said = "".join(capsys.readouterr())
    assert message in said
    check(said, "the command line")
