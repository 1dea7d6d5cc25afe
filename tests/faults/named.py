"""Which files of a table something names, found without pkray's own references."""

import re
from collections.abc import Iterable, Iterator

from pkray.format import manifest, snapshot, tag
from pkray.format.data_file import ADD
from pkray.format.snapshot import Snapshot

_METADATA = re.compile(
    r"(schema/schema-\d+|snapshot/(snapshot-\d+|EARLIEST|LATEST)|changelog/(changelog-\d+|EARLIEST"
    r"|LATEST)|tag/tag-[^/]+|consumer/consumer-[^/]+|writer/writer-[0-9a-f]+)"
)


def unnamed(files: dict[str, bytes]) -> list[str]:
    """Of a table's files by path, those that none of its metadata leads to."""
    own = {path for path in files if _METADATA.fullmatch(re.sub("^branch/branch-[^/]+/", "", path))}
    named = {name for each in _snapshots(files, own) for name in _names(files, each)}
    rest = sorted(files.keys() - own)
    return [path for path in rest if path.rpartition("/")[2] not in named]


def missing(files: dict[str, bytes]) -> list[str]:
    """Of what a table's metadata leads to, the names of the files that are not there."""
    own = {path for path in files if _METADATA.fullmatch(re.sub("^branch/branch-[^/]+/", "", path))}
    there = {path.rpartition("/")[2] for path in files}
    return sorted({n for each in _snapshots(files, own) for n in _names(files, each)} - there)


def _snapshots(files: dict[str, bytes], own: Iterable[str]) -> Iterator[Snapshot]:
    for path in own:
        kind = path.split("/")[-2]
        if kind == "tag":
            yield tag.decode(files[path], "t", path).snapshot
        elif kind in ("snapshot", "changelog") and path[-1].isdigit():
            yield snapshot.decode(files[path], path)


def _names(files: dict[str, bytes], of: Snapshot) -> Iterator[str]:
    for name in (of.base_manifest_list, of.delta_manifest_list, of.changelog_manifest_list):
        if name is None:
            continue
        yield name
        data = files.get(f"manifest/{name}")
        if data is None:
            continue
        for each in manifest.read_manifest_list(data, name):
            yield each.file_name
            path = f"manifest/{each.file_name}"
            for entry in manifest.read_manifest(files[path], path) if path in files else ():
                if entry.kind == ADD:
                    yield entry.file.file_name
    if of.index_manifest is not None:
        yield of.index_manifest
        data = files.get(f"manifest/{of.index_manifest}")
        for index in manifest.read_index_manifest(data, of.index_manifest) if data else ():
            yield index.file.file_name
