"""Object stores that break off, keep silent or refuse: what passes is not noticed, and what does
not ends soon, with the remedy."""

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

import pkray
from pkray.errors import PkrayError, TableNotFoundError
from pkray.storage.opening import open_store
from pkray.storage.requests import SlowRequests
from tests.integration.misbehaving_endpoint import (
    MisbehavingEndpoint,
    breaks_off,
    breaks_off_unannounced,
    claims_success,
    dribbles,
    forgets_conditions,
    hangs_up,
    is_a_page,
    is_silent,
    misbehaving,
    says,
)

SOON = 120
"""Seconds: far more than requests are given here, on a busy machine too, and far less than the
four minutes for which a silent endpoint keeps one waiting."""
SCHEMA = [("id", "BIGINT NOT NULL"), ("v", "STRING")]


@pytest.fixture(scope="module")
def bucket(s3: Any) -> str:
    s3.create_bucket(Bucket="misbehaving")
    return "misbehaving"


@pytest.fixture
def broken(endpoint: str) -> Iterator[MisbehavingEndpoint]:
    with misbehaving(endpoint) as found:
        yield found


@pytest.fixture
def options(s3_options: dict[str, str], broken: MisbehavingEndpoint) -> dict[str, str]:
    return {**s3_options, "endpoint": broken.url}


@pytest.fixture
def root(bucket: str, request: pytest.FixtureRequest) -> str:
    return f"s3://{bucket}/{abs(hash(request.node.name))}"


@pytest.fixture
def connect(root: str, options: dict[str, str]) -> Iterator[Any]:
    opened = []

    def open_catalog(**more: str) -> pkray.Catalog:
        opened.append(pkray.connect(root, **{**options, **more}))
        return opened[-1]

    yield open_catalog
    for catalog in opened:
        catalog.close()


def names(store: Any) -> list[str]:
    return [status.path for status in store.list()]


@pytest.mark.parametrize("fault", [breaks_off, breaks_off_unannounced, hangs_up])
def test_a_list_that_breaks_off_is_whole(root, options, broken, fault):
    store = open_store(root, **options)
    for number in range(5):
        store.write(f"f{number}", b"x")
    broken.spoil("LIST", fault, fault)
    assert names(store) == [f"f{number}" for number in range(5)]
    broken.spoil("LIST", fault)
    assert store.list_dirs() == []
    broken.spoil("LIST", fault)
    assert [status.path for status in store.list(recursive=False)] == names(store)


def test_a_list_that_breaks_off_in_the_middle_has_no_gap_and_nothing_twice(
    root, options, broken, monkeypatch
):
    store = open_store(root, **options)
    expected = [f"d{number % 3}/f{number:02}" for number in range(30)]
    for name in expected:
        store.write(name, b"x")
    broken.page = 4
    monkeypatch.setattr("pkray.storage.remote.LIST_CHUNK", 3)
    broken.spoil("LIST", None, breaks_off, None, None, hangs_up, None, breaks_off_unannounced)
    assert names(store) == sorted(expected)


def test_a_job_does_not_notice_lists_that_break_off(connect, broken):
    broken.spoil("LIST", *[None, None, breaks_off] * 100)
    table = connect().create_table("db.t", SCHEMA, ["id"])
    for number in range(2):
        table.upsert([{"id": number, "v": "x"}], commit_user="u")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert sorted(connect().load_table("db.t").to_arrow()["id"].to_pylist()) == [0, 1]
    assert table.snapshots()["snapshot_id"].to_pylist() == [2]


@pytest.mark.parametrize("kind", ["LIST", "*"])
@pytest.mark.parametrize(
    "use",
    [
        lambda catalog, table: catalog.load_table("db.t"),
        lambda catalog, table: table.upsert([{"id": 2, "v": "y"}]),
        lambda catalog, table: table.expire_snapshots(retain_max=1, retain_min=1),
        lambda catalog, table: table.remove_orphan_files(),
    ],
    ids=["load", "upsert", "expire", "orphans"],
)
def test_a_page_that_answers_lists_makes_no_table_empty(connect, broken, kind, use):
    connect().create_table("db.t", SCHEMA, ["id"]).upsert([{"id": 1, "v": "x"}])
    catalog, other = connect(), connect()
    table = catalog.load_table("db.t")
    broken.spoil(kind, is_a_page, always=True)
    with pytest.raises(PkrayError) as caught:
        use(other, table)
    assert not isinstance(caught.value, TableNotFoundError)
    broken.spoil(kind)
    assert connect().load_table("db.t").to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize("kind", ["LIST", "*"])
@pytest.mark.parametrize(
    "use",
    [
        lambda catalog: catalog.list_tables(),
        lambda catalog: catalog.list_databases(),
        lambda catalog: catalog.views(),
        lambda catalog: catalog.queries(),
    ],
    ids=["tables", "databases", "views", "queries"],
)
def test_a_page_that_answers_lists_makes_no_warehouse_empty(connect, broken, kind, use):
    connect().create_table("db.t", SCHEMA, ["id"])
    broken.spoil(kind, is_a_page, always=True)
    with pytest.raises(pkray.StorageError):
        use(connect())


def test_a_warehouse_without_tables_is_empty(connect):
    catalog = connect()
    assert catalog.list_tables() == []
    catalog.create_table("db.t", SCHEMA, ["id"])
    catalog.drop_table("db.t")
    assert catalog.list_tables() == []
    assert catalog.list_databases() == []
    assert catalog.queries() == []


@pytest.mark.parametrize("fault", [forgets_conditions, claims_success])
def test_no_table_is_created_where_creates_are_not_conditional(connect, broken, fault):
    broken.spoil("PUT", fault, always=True)
    with pytest.raises(pkray.UnsupportedError, match=r"\.pkray was created twice.*If-None-Match"):
        connect().create_table("db.t", SCHEMA, ["id"])
    assert connect().list_tables() == []


@pytest.mark.parametrize("fault", [forgets_conditions, claims_success])
def test_nothing_is_committed_where_creates_are_not_conditional(
    root, s3_options, connect, broken, fault
):
    with pkray.connect(root, **s3_options, allow_http="true") as direct:
        direct.create_table("db.t", SCHEMA, ["id"]).upsert([{"id": 1, "v": "x"}])
        broken.spoil("PUT", fault, always=True)
        with pytest.raises(pkray.UnsupportedError, match="conditional writes"):
            connect().load_table("db.t").upsert([{"id": 2, "v": "y"}])
        assert direct.load_table("db.t").snapshots()["snapshot_id"].to_pylist() == [1]


def test_creates_are_tried_once_a_process_with_one_request(root, s3_options, connect, broken):
    with pkray.connect(root, **s3_options, allow_http="true") as direct:
        direct.create_table("db.t", SCHEMA, ["id"])
    table = connect().load_table("db.t")
    mark = root.removeprefix("s3:/") + "/.pkray"
    assert [table.upsert([{"id": n, "v": "x"}]).id for n in (1, 2)] == [1, 2]
    assert broken.paths.count(mark) == 1


def test_keys_that_may_write_to_their_tables_alone_commit(root, s3_options, connect, broken):
    with pkray.connect(root, **s3_options, allow_http="true") as direct:
        direct.create_table("db.t", SCHEMA, ["id"])
    broken.refused = "/.pkray"
    assert connect().load_table("db.t").upsert([{"id": 1, "v": "x"}]).id == 1


@pytest.mark.parametrize("fault", [says(503, "SlowDown"), says(500, "InternalError")])
def test_an_overloaded_store_is_asked_again(root, options, broken, fault):
    store = open_store(root, **options)
    store.write("f", b"x")
    broken.spoil("LIST", fault, fault)
    broken.spoil("GET", fault, fault)
    assert names(store) == ["f"]
    assert store.read("f") == b"x"


def test_a_store_that_stays_overloaded_is_asked_a_bounded_number_of_times(root, options, broken):
    store = open_store(root, **options, max_retries="2", retry_timeout="20s")
    broken.spoil("GET", says(503, "SlowDown"), always=True)
    with pytest.raises(pkray.StorageError, match=r"HTTP status 503, SlowDown: no; .*overloaded"):
        store.read("f")
    assert len(broken.requests) <= 9


REFUSALS = [
    (says(403, "AccessDenied"), "HTTP status 403, AccessDenied: no; check the keys and rights"),
    (says(401, "Unauthorized"), "check the keys and rights"),
    (says(400, "ExpiredToken"), "check the keys and rights"),
    (says(404, "NoSuchBucket"), "there is no such bucket"),
    (says(404, ""), "there is no such bucket"),
    (says(301, "PermanentRedirect"), "in another region: correct the storage option region"),
    (says(400, "AuthorizationHeaderMalformed"), "in another region"),
    (says(403, "RequestTimeTooSkewed"), "set the clock"),
]


@pytest.mark.parametrize(("fault", "message"), REFUSALS)
def test_a_refused_list_names_what_to_do_and_is_not_repeated(root, options, broken, fault, message):
    store = open_store(root, **options)
    broken.spoil("LIST", fault, always=True)
    for use in (lambda: names(store), store.list_dirs):
        broken.requests.clear()
        with pytest.raises(pkray.StorageError, match=message):
            use()
        assert broken.requests == ["LIST"]


def test_no_such_host(root, options):
    store = open_store(root, **{**options, "endpoint": "http://x.invalid"}, max_retries="0")
    with pytest.raises(pkray.StorageError, match="no such host: check the endpoint"):
        names(store)


def test_silence_ends_after_the_time_given_with_a_word_in_the_log(
    connect, broken, caplog, monkeypatch
):
    monkeypatch.setattr("pkray.storage.requests.SLOW_REQUESTS", SlowRequests(0.2))
    connect().create_table("db.t", SCHEMA, ["id"])
    catalog = connect(retry_timeout="1s")
    broken.spoil("*", is_silent, always=True)
    started = time.monotonic()
    with (
        caplog.at_level(logging.WARNING, "pkray"),
        pytest.raises(pkray.StorageError, match="the store does not answer: check the endpoint"),
    ):
        catalog.load_table("db.t")
    assert time.monotonic() - started < SOON
    assert any("no answer for 0.2 seconds: " in text for text in caplog.messages)


@pytest.mark.parametrize("kind", ["LIST", "GET", "HEAD", "PUT", "POST"])
def test_every_request_ends(root, options, broken, kind):
    open_store(root, **options).write("f", b"x")
    store = open_store(root, **options, retry_timeout="500ms")
    broken.spoil(kind, is_silent, always=True)
    call = {
        "LIST": lambda: names(store),
        "GET": lambda: store.read("f"),
        "HEAD": lambda: store.size("f"),
        "PUT": lambda: store.create("g", b"x"),
        "POST": lambda: store.delete("f"),
    }[kind]
    started = time.monotonic()
    with pytest.raises(pkray.StorageError, match="does not answer"):
        call()
    assert time.monotonic() - started < SOON


def test_an_upload_ends(root, options, broken):
    output = open_store(root, **options, retry_timeout="300ms").open_output("f")
    broken.spoil("PUT", is_silent, always=True)
    output.write(b"x")
    started = time.monotonic()
    with pytest.raises(pkray.StorageError, match="does not answer"):
        output.close()
    assert time.monotonic() - started < SOON


def test_a_dribble_ends(root, options, broken):
    open_store(root, **options).write("f", b"x" * 100)
    store = open_store(root, **options, retry_timeout="300ms", read_timeout="30s")
    broken.spoil("GET", dribbles, always=True)
    started = time.monotonic()
    with pytest.raises(pkray.StorageError, match="does not answer"):
        store.read("f")
    assert time.monotonic() - started < SOON


def test_stores_below_one_bucket_share_their_connections(root, options, broken):
    store = open_store(root, **options)
    store.write("a/b/c", b"x")
    for _ in range(20):
        assert store.child("a").child("b").read("c") == b"x"
        assert open_store(f"{root}/a", **options).read("b/c") == b"x"
    assert len(broken.requests) == 41
    assert broken.connections < 10  # the client opens a second one where the first is at work
