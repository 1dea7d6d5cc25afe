"""Names of a table's files, relative to the table's root.

Source: the tree in Apache Paimon's "concepts/spec". Folders are '/'-separated, without a leading
slash; numbers are decimal.
"""

import re
import uuid

from pkray.arguments import file_names
from pkray.errors import CorruptFileError

SCHEMA_DIR = "schema"
SNAPSHOT_DIR = "snapshot"
MANIFEST_DIR = "manifest"
INDEX_DIR = "index"
STATISTICS_DIR = "statistics"
TAG_DIR = "tag"
BRANCH_DIR = "branch"
CONSUMER_DIR = "consumer"
CHANGELOG_DIR = "changelog"
WRITER_DIR = "writer"
"""Of pkray alone."""

EARLIEST_HINT = f"{SNAPSHOT_DIR}/EARLIEST"
EXPIRING = f"{SNAPSHOT_DIR}/EXPIRING"
"""What an expiry is about to delete. Other engines pass it over, as they look for
``snapshot-*``."""
WAITING = f"{SNAPSHOT_DIR}/WAITING"
"""A committer that lost a race, likewise."""
LATEST_HINT = f"{SNAPSHOT_DIR}/LATEST"

_BUCKET = re.compile(r"(?:^|/)bucket-(-?\d+)$")


def schema(schema_id: int) -> str:
    return f"{SCHEMA_DIR}/schema-{schema_id}"


def snapshot(snapshot_id: int) -> str:
    return f"{SNAPSHOT_DIR}/snapshot-{snapshot_id}"


def long_lived_changelog(snapshot_id: int) -> str:
    return f"{CHANGELOG_DIR}/changelog-{snapshot_id}"


def manifest(file_name: str) -> str:
    """Locate a manifest, manifest list or index manifest, by the name a snapshot or list gives
    it."""
    return f"{MANIFEST_DIR}/{_checked(file_name)}"


def index(file_name: str) -> str:
    return f"{INDEX_DIR}/{_checked(file_name)}"


def statistics(file_name: str) -> str:
    return f"{STATISTICS_DIR}/{_checked(file_name)}"


def tag(name: str) -> str:
    return f"{TAG_DIR}/tag-{name}"


def branch(name: str) -> str:
    """Locate the root of a branch, which has a schema, snapshot and tag folder of its own."""
    return f"{BRANCH_DIR}/branch-{name}"


def consumer(consumer_id: str) -> str:
    return f"{CONSUMER_DIR}/consumer-{consumer_id}"


def writer(digest: str) -> str:
    """Locate the file that says which writer of a commit user is the newest."""
    return f"{WRITER_DIR}/writer-{digest}"


def data_file(partition_path: str, bucket: int, file_name: str) -> str:
    """Locate a bucket's file; ``partition_path`` is '' or ends in '/' (``PartitionSpec.path``)."""
    return f"{partition_path}bucket-{bucket}/{_checked(file_name)}"


def _checked(file_name: str) -> str:
    """Raises `CorruptFileError`: what names the file would lead elsewhere."""
    try:
        return file_names.checked(file_name)
    except ValueError as error:
        raise CorruptFileError(
            f"what names a file of the table is damaged: {error}; restore it, or go back to an "
            "earlier snapshot",
            path=file_name,
        ) from error


def bucket_of(directory: str) -> int | None:
    """Return the bucket's number if ``directory`` is a bucket's folder."""
    found = _BUCKET.search(directory.rstrip("/"))
    return int(found.group(1)) if found else None


class FileNames:
    """New unique file names of one writer: ``<prefix><uuid>-<n>``, n counting from 0.

    One uuid a writer, as Paimon does it: names sort by the order in which they were given out.

    Args:
        data_prefix, changelog_prefix: of data and changelog files. Source: ``data-file.prefix``,
            ``changelog-file.prefix``.
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        data_prefix: str = "data-",
        changelog_prefix: str = "changelog-",
    ) -> None:
        self.token = token or str(uuid.uuid4())
        self._data_prefix = data_prefix
        self._changelog_prefix = changelog_prefix
        self._given: dict[str, int] = {}

    def manifest_list(self) -> str:
        return self._next("manifest-list-")

    def manifest(self) -> str:
        return self._next("manifest-")

    def index_manifest(self) -> str:
        return self._next("index-manifest-")

    def data(self, suffix: str = "parquet") -> str:
        return f"{self._next(self._data_prefix)}.{suffix}"

    def changelog(self, suffix: str = "parquet") -> str:
        return f"{self._next(self._changelog_prefix)}.{suffix}"

    def index(self) -> str:
        return self._next("index-")

    def _next(self, prefix: str) -> str:
        number = self._given.get(prefix, 0)
        self._given[prefix] = number + 1
        return f"{prefix}{self.token}-{number}"
