"""Snapshot files and the names of files."""

import json

import pytest

from pkray.errors import CorruptFileError
from pkray.format import paths
from pkray.format.snapshot import (
    APPEND,
    BATCH_COMMIT_IDENTIFIER,
    COMPACT,
    Snapshot,
    decode,
    encode,
    replace,
)

SNAPSHOT = Snapshot(
    version=3,
    id=4,
    schema_id=1,
    base_manifest_list="manifest-list-u-0",
    delta_manifest_list="manifest-list-u-1",
    changelog_manifest_list="manifest-list-u-2",
    commit_user="job-1",
    commit_identifier=BATCH_COMMIT_IDENTIFIER,
    commit_kind=APPEND,
    time_millis=1_700_000_000_000,
    total_record_count=10,
    delta_record_count=0,
    watermark=-(2**63),
    properties={"k": "v"},
)
JAVA_09 = {
    "version": 3,
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a-0",
    "deltaManifestList": "manifest-list-a-1",
    "changelogManifestList": None,
    "indexManifest": None,
    "commitUser": "0d3a",
    "commitIdentifier": 9223372036854775807,
    "commitKind": "APPEND",
    "timeMillis": 1700000000000,
    "logOffsets": {},
    "totalRecordCount": 3,
    "deltaRecordCount": 3,
    "changelogRecordCount": 0,
    "watermark": -9223372036854775808,
}


def test_a_snapshot_comes_back() -> None:
    assert decode(encode(SNAPSHOT), "snapshot/snapshot-4") == SNAPSHOT


def test_the_file_has_paimons_names_and_no_nulls() -> None:
    content = json.loads(encode(SNAPSHOT))
    assert len(content.pop("pkray.crc32")) == 8
    assert content == {
        "version": 3,
        "id": 4,
        "schemaId": 1,
        "baseManifestList": "manifest-list-u-0",
        "deltaManifestList": "manifest-list-u-1",
        "changelogManifestList": "manifest-list-u-2",
        "commitUser": "job-1",
        "commitIdentifier": 9223372036854775807,
        "commitKind": "APPEND",
        "timeMillis": 1700000000000,
        "totalRecordCount": 10,
        "deltaRecordCount": 0,
        "watermark": -9223372036854775808,
        "properties": {"k": "v"},
    }


def test_a_file_of_java_09_is_read() -> None:
    snapshot = decode(json.dumps(JAVA_09).encode(), "s")
    assert (snapshot.id, snapshot.commit_identifier) == (1, BATCH_COMMIT_IDENTIFIER)
    assert (snapshot.log_offsets, snapshot.changelog_manifest_list) == ({}, None)


def test_fields_of_newer_versions_are_passed_over() -> None:
    newer = {**JAVA_09, "uuid": "u", "nextRowId": 5, "fromTheFuture": {"a": [1]}}
    assert decode(json.dumps(newer).encode(), "s").next_row_id == 5


def test_a_copy_with_changes() -> None:
    assert replace(SNAPSHOT, id=5, commit_kind=COMPACT).commit_kind == COMPACT


def test_every_cut_is_noticed() -> None:
    data = encode(SNAPSHOT)
    for length in range(len(data)):
        with pytest.raises(CorruptFileError, match="snapshot/snapshot-4") as caught:
            decode(data[:length], "snapshot/snapshot-4")
        assert caught.value.path == "snapshot/snapshot-4"


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"id": "one"}, "id"), ({"commitUser": None}, "commitUser"), ({"schemaId": 1.5}, "schemaId")],
)
def test_values_of_the_wrong_type_are_reported(change: dict[str, object], reason: str) -> None:
    with pytest.raises(CorruptFileError, match=reason):
        decode(json.dumps({**JAVA_09, **change}).encode(), "s")


def test_bytes_that_are_not_text_are_reported() -> None:
    with pytest.raises(CorruptFileError):
        decode(b'{"commitUser": "\xff"}', "s")


def test_names_of_metadata_files() -> None:
    assert paths.schema(0) == "schema/schema-0"
    assert paths.snapshot(12) == "snapshot/snapshot-12"
    assert paths.manifest("manifest-list-u-0") == "manifest/manifest-list-u-0"
    assert paths.tag("v1") == "tag/tag-v1"
    assert (paths.EARLIEST_HINT, paths.LATEST_HINT) == ("snapshot/EARLIEST", "snapshot/LATEST")


def test_names_of_data_files() -> None:
    assert paths.data_file("dt=a/", 0, "f.parquet") == "dt=a/bucket-0/f.parquet"


@pytest.mark.parametrize(
    ("directory", "bucket"),
    [("bucket-3", 3), ("dt=a/bucket-12/", 12), ("xbucket-3", None), ("bucket-x", None)],
)
def test_the_bucket_of_a_folder(directory: str, bucket: int | None) -> None:
    assert paths.bucket_of(directory) == bucket


def test_new_names_count_by_kind_and_share_a_token() -> None:
    names = paths.FileNames("u")
    assert [names.data(), names.data(), names.changelog(), names.manifest_list()] == [
        "data-u-0.parquet",
        "data-u-1.parquet",
        "changelog-u-0.parquet",
        "manifest-list-u-0",
    ]


def test_two_writers_never_share_a_name() -> None:
    assert paths.FileNames().manifest() != paths.FileNames().manifest()


def test_a_copy_without_line_breaks_keeps_its_checksum():
    """The Java core makes one where it rolls back to a tag whose snapshot has expired."""
    copy = encode(SNAPSHOT).replace(b"\n", b"")
    assert decode(copy, "") == SNAPSHOT
    with pytest.raises(CorruptFileError, match="checksum"):
        decode(copy.replace(b"job-1", b"job-2"), "snapshot-4")
