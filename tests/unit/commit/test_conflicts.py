from pkray.commit.conflicts import LiveFile, find_changed_bucket, find_conflict, needs_check
from pkray.format.commit_message import files_digest
from pkray.format.data_file import ADD, DELETE, ManifestEntry
from tests.commit_samples import UNPARTITIONED, data_file, partition, schema

KEY_TYPES = schema().types(["k"])
BUCKET = (UNPARTITIONED, 0)


def entry(kind, file, bucket=0, total=2, part=UNPARTITIONED):
    return ManifestEntry(kind, part, bucket, total, file)


def live(*files):
    return {(f.level, f.file_name): LiveFile(f.min_key, f.max_key, 2) for f in files}


def conflict(entries, *files):
    return find_conflict(entries, {BUCKET: live(*files)}, KEY_TYPES)


def test_files_deleted_must_be_there():
    a = data_file("a")
    assert conflict([entry(DELETE, a)], a) is None
    assert "a of level 0 is no longer there" in conflict([entry(DELETE, a)])
    assert conflict([entry(DELETE, data_file("a", 1))], a) is not None
    assert conflict([entry(DELETE, a, bucket=1)], a) is not None


def test_a_file_is_deleted_once():
    a = data_file("a")
    assert conflict([entry(DELETE, a), entry(DELETE, a)], a) is not None


def test_files_added_must_not_be_there():
    a = data_file("a", 3)
    assert "there already" in conflict([entry(ADD, a)], a)
    assert conflict([entry(DELETE, a), entry(ADD, a)], a) is None


def test_level_0_may_overlap():
    assert conflict([entry(ADD, data_file("b"))], data_file("a")) is None
    assert not needs_check([entry(ADD, data_file("b"))])


def test_higher_levels_must_not_overlap():
    a = data_file("a", 2, 0, 9)
    assert conflict([entry(ADD, data_file("b", 2, 10, 12))], a) is None
    assert conflict([entry(ADD, data_file("b", 3, 5, 12))], a) is None
    assert "a and b of level 2 overlap" in conflict([entry(ADD, data_file("b", 2, 9, 12))], a)
    assert conflict([entry(DELETE, a), entry(ADD, data_file("b", 2, 9, 12))], a) is None
    assert needs_check([entry(ADD, data_file("b", 2))])


def test_negative_keys_compare_as_numbers():
    a = data_file("a", 2, -10, -5)
    assert conflict([entry(ADD, data_file("b", 2, -4, 3))], a) is None
    assert conflict([entry(ADD, data_file("b", 2, -6, 300))], a) is not None


def test_files_added_together_must_not_overlap():
    entries = [entry(ADD, data_file("a", 2, 0, 9)), entry(ADD, data_file("b", 2, 5, 20))]
    assert conflict(entries) is not None


def test_a_wide_file_overlaps_all_it_covers():
    there = [data_file(f"f{n}", 2, n * 10, n * 10 + 5) for n in range(5)]
    assert conflict([entry(ADD, data_file("b", 2, 7, 100))], *there) is not None
    assert conflict([entry(ADD, data_file("b", 2, 6, 9))], *there) is None


def test_overlaps_that_were_there_are_not_ours():
    there = [data_file("a", 2, 0, 9), data_file("b", 2, 5, 20)]
    assert conflict([entry(ADD, data_file("c", 2, 30, 40))], *there) is None


def test_partitions_are_apart():
    a, b = partition("a"), partition("b")
    files = {(a, 0): live(data_file("x", 2))}
    added = [entry(ADD, data_file("y", 2), part=b, total=7)]
    assert find_conflict(added, files, KEY_TYPES) is None
    assert find_conflict([entry(ADD, data_file("y", 2), part=a)], files, KEY_TYPES) is not None


def test_a_compaction_reckons_with_the_files_above_level_0():
    said = {BUCKET: files_digest([(5, "b"), (4, "a")])}
    a, b, new = data_file("a", 4), data_file("b", 5), data_file("new", 0)
    assert find_changed_bucket(said, {BUCKET: live(new, b, a)}) is None
    for others in ((a,), (a, data_file("b", 4)), (a, b, data_file("c", 3)), ()):
        assert "above level 0" in find_changed_bucket(said, {BUCKET: live(*others)})
