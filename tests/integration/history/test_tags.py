import json
from datetime import datetime, timedelta

import pytest
from history_samples import content, create, data_files, named_files, put, root, schema

import pkray
from pkray import checksums, errors
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.retention import Retention
from pkray.expiration.tag_removal import TagRemoval
from pkray.format import paths
from pkray.format.tag import decode, encode
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore

DAY = 86_400_000


@pytest.fixture
def table(tmp_path):
    create(tmp_path)
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        for turn in range(3):
            put(table, {1: f"turn {turn}", turn: "own"})
        yield table


def test_a_tag_keeps_the_newest_snapshot_or_a_named_one(table):
    table.tags.create("new")
    table.tags.create("old", 1)
    put(table, {1: "later"})
    assert content(table, tag="new")[1] == "turn 2"
    assert content(table, tag="old") == {0: "own", 1: "turn 0"}
    assert table.tags.list()["tag_name"].to_pylist() == ["new", "old"]
    assert table.tags.list()["snapshot_id"].to_pylist() == [3, 1]


def test_a_tag_without_retention_is_the_snapshots_own_file(table, tmp_path):
    table.tags.create("t", 2)
    store = root(tmp_path)
    assert store.read(paths.tag("t")) == store.read(paths.snapshot(2))


def test_a_retention_is_written_as_java_does(table, tmp_path):
    clock = lambda: 1_700_000_000_123  # noqa: E731
    tags = TagStore(root(tmp_path), clock=clock)
    tags.create("t", SnapshotStore(root(tmp_path)).read(1), 90_500)
    file = json.loads(root(tmp_path).read(paths.tag("t")))
    made = datetime.fromtimestamp(1_700_000_000)
    assert file["tagCreateTime"] == [*made.timetuple()[:6], 123_000_000]
    assert file["tagTimeRetained"] == 90.5
    assert tags.get("t").create_time == clock()
    assert tags.get("t").time_retained == 90_500


@pytest.mark.parametrize(
    ("made", "millis"),
    [
        ([2024, 1, 2, 3, 4], 0),
        ([2024, 1, 2, 3, 4, 5], 5_000),
        ([2024, 1, 2, 3, 4, 5, 678_000_000], 5_678),
        ("2024-01-02T03:04:05.678", 5_678),
    ],
)
def test_times_of_other_writers_are_read(table, tmp_path, made, millis):
    file = json.loads(root(tmp_path).read(paths.snapshot(1)))
    del file[checksums.KEY]
    file |= {"tagCreateTime": made, "tagTimeRetained": "P1DT2H0.5S", "isNew": True}
    tag = decode(json.dumps(file).encode(), "t", "tag/tag-t")
    start = int(datetime(2024, 1, 2, 3, 4).timestamp()) * 1000
    assert (tag.create_time, tag.time_retained) == (start + millis, DAY + 2 * 3_600_000 + 500)
    assert tag.snapshot == SnapshotStore(root(tmp_path)).read(1)
    assert decode(encode(tag), "t", "") == tag


def test_a_damaged_tag_is_named(table, tmp_path):
    root(tmp_path).write(paths.tag("t"), b'{"id": 1')
    with pytest.raises(errors.CorruptFileError, match=r"tag/tag-t is damaged"):
        table.to_arrow(tag="t")


@pytest.mark.parametrize(
    ("given", "millis"), [(5, 5), ("2 d", 2 * DAY), (timedelta(hours=1), 3_600_000), (None, None)]
)
def test_how_long_a_tag_is_kept_is_said_in_several_ways(table, given, millis):
    assert table.tags.create("t", time_retained=given).time_retained == millis


def test_the_tables_retention_counts_by_default(tmp_path):
    create(tmp_path, **{"tag.default_time_retained": "7 d"})
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "a"})
        assert table.tags.create("t").time_retained == 7 * DAY
        with pytest.raises(errors.OptionError, match="time_retained cannot be 'soon'"):
            table.tags.create("u", time_retained="soon")


def test_names_that_are_taken_or_none(table):
    made = table.tags.create("t", 1)
    with pytest.raises(errors.TagExistsError, match="tag 't'"):
        table.tags.create("t")
    assert table.tags.create("t", if_not_exists=True) == made
    for name in ("", "  ", "a/b"):
        with pytest.raises(errors.TableError, match="no name of a tag"):
            table.tags.create(name)
    with pytest.raises(errors.SnapshotNotFoundError):
        table.tags.create("u", 9)
    with pytest.raises(errors.TagNotFoundError, match="its tags are t"):
        table.tags.delete("u")
    assert table.tags.list().num_rows == 1


def test_an_empty_table_has_nothing_to_tag(tmp_path):
    create(tmp_path)
    with pkray.connect(str(tmp_path)) as catalog:
        with pytest.raises(errors.SnapshotNotFoundError, match="no snapshot yet"):
            catalog.load_table("db.t").tags.create("t")


def test_a_snapshot_that_expires_while_it_is_tagged_gets_no_tag(table, tmp_path):
    store = root(tmp_path)
    snapshot = SnapshotStore(store).read(1)
    store.delete(paths.snapshot(1))
    with pytest.raises(errors.SnapshotNotFoundError):
        TagStore(store).create("t", snapshot)
    assert TagStore(store).names() == []


def test_the_last_tag_of_an_expired_snapshot_takes_its_files_along(table, tmp_path):
    table.tags.create("a", 1)
    table.tags.create("b", 1)
    for _ in range(2):
        table.compact()
        put(table, {1: "more"})
    store = root(tmp_path)
    SnapshotExpirer(store, schema(tmp_path)).expire(Retention(1, 1, 0, 1000))
    tagged = content(table, tag="a")
    before = data_files(tmp_path)
    table.tags.delete("a")
    assert data_files(tmp_path) == before
    assert content(table, tag="b") == tagged
    newest = content(table)
    table.tags.delete("b")
    assert data_files(tmp_path) < before
    assert data_files(tmp_path) == named_files(store)
    assert content(table) == newest


def test_a_tag_of_a_snapshot_that_is_there_leaves_its_files(table, tmp_path):
    table.tags.create("t", 1)
    before = {file.path for file in root(tmp_path).list()}
    table.tags.delete("t")
    assert before - {file.path for file in root(tmp_path).list()} == {paths.tag("t")}


def test_tags_expire_by_their_retention(table, tmp_path):
    now = [1_000_000]
    store = root(tmp_path)
    tags = TagStore(store, clock=lambda: now[0])
    first = SnapshotStore(store).read(1)
    tags.create("for ever", first)
    tags.create("short", first, 1000)
    tags.create("long", first, 5000)
    removal = TagRemoval(store, schema(tmp_path), tags)
    now[0] += 1000
    assert removal.expire() == []
    now[0] += 1
    assert removal.expire() == ["short"]
    assert tags.names() == ["for ever", "long"]
