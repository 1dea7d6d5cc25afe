"""What a table's snapshots, tags, changelogs and branches name of its files, by fastavro and json.

Nothing of pkray takes part.
"""

import functools
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro


@dataclass
class Named:
    """Files that something names.

    Args:
        needed: paths of metadata and names of data files without which something is not read.
        spared: those that may be there beside, or not.
    """

    needed: set[str] = field(default_factory=set)
    spared: set[str] = field(default_factory=set)


def there(root: Path) -> set[str]:
    """All files of a table: names of data files, paths of others."""
    paths = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return {_name(path) for path in paths}


def named(root: Path, *, reads_deltas: bool) -> Named:
    """What the table and its branches name.

    Args:
        reads_deltas: changes are read from delta manifests, there being no changelog producer.
    """
    found = Named()
    for history in (root, *root.glob("branch/branch-*")):
        snapshots, changelogs = numbered(history, "snapshot"), numbered(history, "changelog")
        for snapshot in (*snapshots.values(), *tags(history).values()):
            _content(root, snapshot, found.needed)
        for number, changelog in {**snapshots, **changelogs}.items():
            name = changelog.get("changelogManifestList")
            is_oldest = number == min((*snapshots, *changelogs))
            # The oldest may have come back by a tag, which keeps no changelog.
            if name and not (is_oldest and not (root / "manifest" / name).exists()):
                _added(root, name, found.needed)
            if reads_deltas and (number in changelogs or changelog["commitKind"] == "APPEND"):
                is_read = changelog["commitKind"] == "APPEND"
                delta = changelog["deltaManifestList"]
                _added(root, delta, found.needed if is_read else found.spared)
    return found


def changelog_is_there(root: Path, snapshot: dict[str, Any]) -> bool:
    """Whether the changes of a snapshot can be read."""
    name = snapshot.get("changelogManifestList")
    return name is None or (root / "manifest" / name).exists()


def live(root: Path, snapshot: dict[str, Any]) -> dict[tuple[int, str], dict[str, Any]]:
    """The entries of a snapshot's data files."""
    files: dict[tuple[int, str], dict[str, Any]] = {}
    for name in ("baseManifestList", "deltaManifestList"):
        for manifest in _manifests(root, snapshot[name]):
            for record in _avro(root / "manifest" / manifest):
                key = record["_FILE"]["_LEVEL"], record["_FILE"]["_FILE_NAME"]
                if record["_KIND"] == 0:
                    assert key not in files
                    files[key] = record
                else:
                    del files[key]
    return files


def numbered(history: Path, kind: str) -> dict[int, dict[str, Any]]:
    found = {}
    for path in (history / kind).glob(f"{kind}-*"):
        found[int(path.name.removeprefix(f"{kind}-"))] = json.loads(path.read_bytes())
    return dict(sorted(found.items()))


def tags(history: Path) -> dict[str, dict[str, Any]]:
    return {
        path.name.removeprefix("tag-"): json.loads(path.read_bytes())
        for path in (history / "tag").glob("tag-*")
    }


def _content(root: Path, snapshot: dict[str, Any], found: set[str]) -> None:
    for name in ("baseManifestList", "deltaManifestList"):
        found.add(f"manifest/{snapshot[name]}")
        found.update(f"manifest/{each}" for each in _manifests(root, snapshot[name]))
    for record in live(root, snapshot).values():
        found.update((record["_FILE"]["_FILE_NAME"], *record["_FILE"]["_EXTRA_FILES"]))
    index = snapshot.get("indexManifest")
    if index:
        found.add(f"manifest/{index}")
        found.update(f"index/{each['_FILE_NAME']}" for each in _avro(root / "manifest" / index))


def _added(root: Path, list_name: str | None, found: set[str]) -> None:
    if list_name is None:
        return
    found.add(f"manifest/{list_name}")
    for manifest in _manifests(root, list_name):
        found.add(f"manifest/{manifest}")
        for record in _avro(root / "manifest" / manifest):
            if record["_KIND"] == 0:
                found.update((record["_FILE"]["_FILE_NAME"], *record["_FILE"]["_EXTRA_FILES"]))


def _manifests(root: Path, list_name: str) -> list[str]:
    return [record["_FILE_NAME"] for record in _avro(root / "manifest" / list_name)]


@functools.lru_cache(4_000)
def _avro(path: Path) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(path.read_bytes())))


def _name(path: Path) -> str:
    in_bucket = path.parent.name.startswith("bucket-")
    return path.name if in_bucket else path.as_posix()
