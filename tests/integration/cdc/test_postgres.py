"""Tables of a PostgreSQL, followed by Debezium."""

import json
import logging
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

import pkray
import pkray.cdc
from pkray.cdc.postgresql import source as source_module
from pkray.cdc.postgresql.server_identity import ServerIdentity
from pkray.cdc.postgresql.session import Session
from pkray.errors import (
    ChangeRecordError,
    ChangeSourceError,
    CommitConflictError,
    CommitFencedError,
    InputError,
)
from pkray.service.client.writer import TableWriter
from tests.integration.cdc import followed
from tests.integration.cdc.postgres_server import PASSWORD, PostgresServer
from tests.integration.cdc.test_postgres_histories import follow_killed
from tests.integration.cdc.test_upserts import run
from tests.waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(600)]

COLUMNS = [("id", "INT"), ("name", "STRING"), ("price", "DECIMAL(10, 2)"), ("note", "STRING")]
SMALL = {"max.batch.size": "7", "max.queue.size": "20"}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    found = PostgresServer()
    yield found
    found.close()


@pytest.fixture
def people(server, catalog):
    """A table there, made anew, and the one here."""
    slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
    server.sql(slots)
    server.sql("DROP PUBLICATION IF EXISTS pkray_db_people")
    server.sql(
        "DROP TABLE IF EXISTS people; CREATE TABLE people "
        "(id int PRIMARY KEY, name text, price numeric(10, 2), note text)"
    )
    return catalog.create_table("db.people", COLUMNS, ["id"], options={"bucket": "2"})


def follow(people, server, **more):
    more = {**server.where, **more}
    return pkray.cdc.postgres(people, "public.people", **more)


def source(server: PostgresServer) -> list[dict]:
    text = "SELECT coalesce(json_agg(p ORDER BY id), '[]')::text FROM people p"
    return json.loads("".join(server.sql(text)), parse_float=str)


def content(table: pkray.Table) -> list[dict]:
    rows = table.to_arrow().sort_by("id").to_pylist()
    return [{**row, "price": row["price"] and str(row["price"])} for row in rows]


def insert(server: PostgresServer, start: int, stop: int) -> None:
    server.sql(
        "INSERT INTO people SELECT g, 'n' || g, g + 0.25, repeat(md5(g::text), 200) "
        f"FROM generate_series({start}, {stop}) g"
    )


def change(server: PostgresServer, rng: random.Random) -> None:
    """Some updates, deletes and moves in a transaction; long notes mostly stay as they are."""
    keys = [rng.randrange(60) for _ in range(4)]
    server.sql(
        f"UPDATE people SET price = price + 1 WHERE id % 7 = {keys[0] % 7};"
        f"DELETE FROM people WHERE id = {keys[1]};"
        f"UPDATE people SET id = id + 1000 WHERE id = {keys[2]} AND id < 60;"
        f"UPDATE people SET note = NULL, name = 'é' WHERE id = {keys[3]};"
        f"INSERT INTO people VALUES ({keys[1]}, NULL, NULL, repeat('x', 9000)) "
        "ON CONFLICT DO NOTHING"
    )


def test_a_life(server, people, catalog, caplog):
    """Rows, changes, nothing, changes again; then what cannot be gone on with."""
    rng = random.Random(7)
    insert(server, 1, 40)
    with caplog.at_level(logging.DEBUG):
        assert follow(people, server).run(once=True) == 40
        assert content(people) == source(server)
        for _ in range(2):
            change(server, rng)
            follow(people, server, properties=SMALL).run(once=True)
            assert content(people) == source(server)
    assert follow(people, server).run(once=True) == 0
    assert PASSWORD not in caplog.text + repr(follow(people, server))

    with pytest.raises(ChangeSourceError, match=r"has the changes of .*, not of"):
        pkray.cdc.postgres(people, "public.others", **server.where).run(once=True)
    ended: list[Exception] = []
    first = threading.Thread(
        target=lambda: ended.append(failure_of(follow(people, server, heartbeat=1.0))), daemon=True
    )
    first.start()
    insert(server, 100, 110)
    wait_until(lambda: content(people) == source(server))
    follow(people, server).run(once=True)  # two at once: the newer one takes over
    first.join(120)
    assert [type(error) for error in ended] == [CommitFencedError]

    follower = follow(people, server)
    thread = threading.Thread(target=follower.run, daemon=True)
    thread.start()
    insert(server, 120, 130)
    wait_until(lambda: content(people) == source(server))
    follower.stop()
    thread.join(120)
    assert not thread.is_alive()

    catalog.drop_table("db.people")  # anew under the same name: all rows come again
    people = catalog.create_table("db.people", COLUMNS, ["id"])
    follow(people, server).run(once=True)
    assert content(people) == source(server)
    wait_until(lambda: server.sql("SELECT active FROM pg_replication_slots") == ["f"])
    server.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    with pytest.raises(ChangeSourceError, match="has no slot 'pkray_db_people' any more"):
        follow(people, server).run(once=True)


def test_rows_that_have_one_place_in_the_log_come_together(server, people):
    """Whoever is killed among them would go on behind the last one."""
    insert(server, 1, 3)
    follow(people, server).run(once=True)
    server.sql("COPY people (id, name) FROM PROGRAM 'seq -f %g,n 200 260' (FORMAT csv)")
    server.sql("UPDATE people SET id = id + 1000, note = name WHERE id > 1")
    follow_killed(people, server, commits=1)
    assert len(content(people)) in (3, 64)
    follow_killed(people, server, commits=1)
    follow(people, server, properties=SMALL).run(once=True)
    assert content(people) == source(server)


def test_a_column_that_comes_in_a_transaction_is_added(server, people, catalog):
    insert(server, 1, 3)
    follow(people, server, new_columns="add").run(once=True)
    server.sql(
        "BEGIN; UPDATE people SET price = price + 1; INSERT INTO people SELECT g, 'n' FROM "
        "generate_series(10, 20) g; ALTER TABLE people ADD COLUMN born int; UPDATE people SET "
        "born = id WHERE id > 2; DELETE FROM people WHERE id = 20; COMMIT"
    )
    follower = follow(people, server, new_columns="add", properties=SMALL)
    assert follower.run(once=True) == 3 + 11 + 12 + 1
    assert content(catalog.load_table("db.people")) == source(server)


def test_a_slot_that_has_forgotten_changes_is_told(server, people):
    """It was made anew, its changes were given to another, or the table was taken back."""
    insert(server, 1, 3)
    follow(people, server).run(once=True)
    wait_until(lambda: server.sql("SELECT active FROM pg_replication_slots") == ["f"])
    slot = "pkray_db_people"
    insert(server, 4, 6)
    server.sql(f"SELECT pg_drop_replication_slot('{slot}')")
    server.sql(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    said = r"slot 'pkray_db_people' of .* is at 0/\w+, beyond 0/\w+, which db.people is at"
    with pytest.raises(ChangeSourceError, match=said):
        follow(people, server).run(once=True)
    assert people.to_arrow().num_rows == 3


@pytest.mark.slow
def test_bad_records_go_to_the_table_of_errors_once(server, people, catalog, monkeypatch):
    errors = pkray.cdc.open_errors(catalog, "db.people$errors")
    server.sql("ALTER TABLE people ALTER COLUMN price TYPE numeric(12, 4)")
    server.sql("INSERT INTO people VALUES (1, 'a', 1.0, ''), (2, 'b', 0.0001, ''), "
               "(3, 'c', 0.0002, '')")  # fmt: skip
    found = follow(people, server, errors=errors)
    assert (found.run(once=True), found.bad) == (1, 2)
    server.sql("INSERT INTO people VALUES (4, 'd', 0.0003, '')")
    plain = TableWriter.commit

    def commit(self, *arguments, properties=None, **named):
        if properties is not None:  # that of the table, after that of the errors
            raise CommitConflictError("as the test says")
        return plain(self, *arguments, **named)

    with monkeypatch.context() as patched, pytest.raises(CommitConflictError):
        patched.setattr(TableWriter, "commit", commit)
        follow(people, server, errors=errors).run(once=True)
    server.sql("INSERT INTO people VALUES (5, 'e', 2.0, '')")
    follow(people, server, errors=errors).run(once=True)
    follow(people, server, errors=errors).run(once=True)
    assert people.to_arrow().sort_by("id").column("id").to_pylist() == [1, 5]
    assert errors.to_arrow().num_rows == 3
    with pytest.raises(ChangeRecordError, match="price"):
        server.sql("INSERT INTO people VALUES (6, 'f', 0.0004, '')")
        follow(people, server).run(once=True)


@pytest.mark.slow
def test_changes_behind_a_rollback_are_told_to_be_lost(server, people):
    insert(server, 1, 3)
    follow(people, server).run(once=True)
    before = people.latest_snapshot().id
    insert(server, 4, 6)
    follow(people, server).run(once=True)
    people.rollback_to(snapshot_id=before)
    with pytest.raises(ChangeSourceError, match="or the table was taken back"):
        follow(people, server).run(once=True)


@pytest.mark.slow
def test_the_log_of_another_server_or_of_one_taken_back_is_told(server, people, monkeypatch):
    insert(server, 1, 3)
    follow(people, server).run(once=True)
    text = server.sql("SELECT system_identifier FROM pg_control_system()")[0]
    plain = Session.identity
    for found in (ServerIdentity("5", 1), ServerIdentity(text, 9), ServerIdentity(text, 0)):
        monkeypatch.setattr(Session, "identity", lambda _, found=found: found)
        monkeypatch.setattr(Session, "branch_points", lambda *_: {1: 10, 2: 11, 3: 12})
        with pytest.raises(ChangeSourceError, match=f"has another log .* it is system {found[0]}"):
            follow(people, server).run(once=True)
    monkeypatch.setattr(Session, "identity", plain)
    insert(server, 4, 6)
    assert follow(people, server).run(once=True) == 3


@pytest.mark.slow
def test_a_server_that_was_promoted_is_gone_on_with_where_it_has_what_the_table_has(
    server, people, monkeypatch
):
    insert(server, 1, 3)
    follow(people, server).run(once=True)
    with monkeypatch.context() as patched:  # as places were written before
        patched.setattr(source_module, "_SYSTEM", "pkray.cdc.postgres.unknown")
        follow(people, server).run(once=True)
    assert follow(people, server).run(once=True) == 0
    wait_until(lambda: server.sql("SELECT active FROM pg_replication_slots") == ["f"])
    server.promote()
    insert(server, 4, 6)
    assert follow(people, server).run(once=True) == 3
    assert content(people) == source(server)
    properties = people.latest_snapshot().properties
    assert properties["pkray.cdc.postgres.system"].endswith("/2")


def failure_of(follower: pkray.cdc.PostgresSource) -> Exception:
    with pytest.raises(CommitFencedError) as failed:
        follower.run()
    return failed.value


def test_arguments_and_answers_are_named_without_the_password(server, people, catalog, tmp_path):
    with pytest.raises(ChangeSourceError) as refused:
        follow(people, server, password="wrong-" + PASSWORD).run(once=True)
    assert "password authentication failed" in str(refused.value)
    assert PASSWORD not in str(refused.value)
    with pytest.raises(ChangeSourceError, match=r"127\.0\.0\.1:1"):
        follow(people, server, port=1).run(once=True)
    with pytest.raises(InputError, match="source 'people' is no table"):
        pkray.cdc.postgres(people, "people", **server.where)
    with pytest.raises(InputError, match="slot 'A-b'"):
        follow(people, server, slot="A-b")
    with pytest.raises(InputError, match="password's file"):
        follow(people, server, password=None, password_file=tmp_path / "none")
    people.upsert([{"id": 1, "name": "a", "price": None, "note": None}])
    with pytest.raises(ChangeSourceError, match="has rows and no place"):
        follow(people, server).run(once=True)


@pytest.mark.slow
def test_the_command_line_follows_and_adds_columns(capsys, catalog, server, people, tmp_path):
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    insert(server, 1, 3)
    server.sql("ALTER TABLE people ADD COLUMN born int; UPDATE people SET born = 1912 WHERE id = 2")
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    where = ("--database", "postgres", "--host", "127.0.0.1", "--port", server.port, "--user", "pk")
    words = (*where, "--password-file", password, "--once", "--json", "-w", warehouse)
    said = run(capsys, "cdc", "postgres", "db.people", "--source", "public.people",
               "--merge-schema", *words)  # fmt: skip
    assert json.loads(said) == {"rows": 3}
    people = catalog.load_table("db.people")
    assert people.to_arrow().sort_by("id").column("born").to_pylist() == [None, 1912, None]
    assert str(people.arrow_schema.field("born").type) == "int32"


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_the_command_line_ends_cleanly_when_it_is_told(server, people, tmp_path, number):
    """Java would end the process by itself, and Python crash in it."""
    insert(server, 1, 20)
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    words = (
        f"-m pkray cdc postgres db.people --source public.people --host 127.0.0.1 --port "
        f"{server.port} --database postgres --user pk --password-file {password} --json "
        f"-w {warehouse}"
    )
    process = subprocess.Popen(
        [sys.executable, *words.split()], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: people.latest_snapshot() is not None)
    process.send_signal(number)
    said, _ = process.communicate(timeout=120)
    assert (process.returncode, json.loads(said)) == (0, {"rows": 20})
    assert list(tmp_path.glob("hs_err*")) == []
    change(server, random.Random(5))
    follow(people, server).run(once=True)
    assert content(people) == source(server)


def killed(server: PostgresServer, people: pkray.Table, point: str, number: int) -> None:
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    words = [sys.executable, followed.__file__, warehouse, str(server.port), point, str(number)]
    ended = subprocess.run(words, timeout=180, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


@pytest.mark.slow
def test_a_follower_killed_between_commit_and_acknowledgement_repeats_nothing(server, people):
    insert(server, 1, 20)
    killed(server, people, "committed", 1)
    assert content(people) == source(server)
    change(server, random.Random(3))
    rows = follow(people, server).run(once=True)
    assert content(people) == source(server)
    assert rows < 20


@pytest.mark.slow
def test_killed_at_any_point_the_table_becomes_the_source(server, people):
    rng = random.Random(11)
    insert(server, 1, 40)
    of_snapshot = {"write": 3, "written": 2, "released": 4, "commit": 1, "committed": 1}
    for point, number in of_snapshot.items():
        killed(server, people, point, number)
        change(server, rng)
        change(server, rng)
    for point in followed.POINTS:
        killed(server, people, point, 1)
        change(server, rng)
        change(server, rng)
    follow(people, server).run(once=True)
    assert content(people) == source(server)


BENCH = """
\\set key random(1, 300)
\\set other random(1, 300)
BEGIN;
UPDATE people SET price = price + 1, name = 'n' || :other WHERE id = :key;
DELETE FROM people WHERE id = :other;
INSERT INTO people VALUES (:other, 'again', 0.5, repeat(md5(:key::text), 100))
    ON CONFLICT DO NOTHING;
END;
"""


@pytest.mark.slow
def test_killed_again_and_again_under_load_the_table_becomes_the_source(server, people, tmp_path):
    """Two clients write while followers are killed at commits and acknowledgements."""
    insert(server, 1, 300)
    script = tmp_path / "bench.sql"
    script.write_text(BENCH)
    for number, point in enumerate(("committed", "commit", "released", "written", "committed")):
        load = threading.Thread(
            target=server.bench,
            args=("-f", str(script), "-c", "2", "-t", "150", "--max-tries=20"),
            daemon=True,
        )
        load.start()
        killed(server, people, point, 2 + number)
        load.join(120)
        follow(people, server).run(once=True)
        assert content(people) == source(server)
