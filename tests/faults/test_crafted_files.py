"""Files that somebody made, checksums and all, to lead out of the table's folder: none does."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pkray
from pkray.checksums import KEY, seal_json
from pkray.errors import OptionError, PkrayError, StorageError
from pkray.format.avro import schemas as avro_schemas
from pkray.format.avro.files import read_records, write_records
from tests.faults import script

TABLE = "w/shop.db/orders"
VICTIM = "precious"
"""A file beside the warehouse, and what crafted names lead to."""

Edit = Callable[[dict[str, Any]], None]


def _outside(folder: str) -> str:
    """The victim as a folder of the table would name it."""
    depth = len(folder.split("/")) if folder else 0
    return "../" * (depth + 3) + VICTIM


def _plain(catalog: pkray.Catalog) -> None:
    for step in (
        script.create(changelog_producer="input"),
        script.commit("a", 0, {(n, "x"): n for n in range(9)}),
        script.commit("a", 1, {(1, "x"): 11}, deleted=((2, "x"),)),
        script.tag("v1"),
        script.branch("side", "v1"),
        script.compact(full=True),
        script.commit("a", 2, {(3, "x"): 33}),
        script.commit("a", 3, {(4, "x"): 44}),
    ):
        step(catalog)


def _marked(catalog: pkray.Catalog) -> None:
    options = {"deletion-vectors.enabled": "true", "dynamic-bucket.target-row-num": "300"}
    for step in (
        script.create(bucket="-1", partitioned=False, **options),
        script.commit("a", 0, {(n, "x"): n for n in range(9)}),
        script.compact(full=True),
        script.commit("a", 1, {(1, "y"): 11}),
        script.tag("v1"),
        script.commit("a", 2, {(3, "y"): 33}),
    ):
        step(catalog)


@pytest.fixture(scope="module")
def warehouses(tmp_path_factory) -> dict[str, Path]:
    made = {}
    for make in (_plain, _marked):
        root = tmp_path_factory.mktemp(make.__name__)
        with pkray.connect(str(root / "w"), runtime_options={"owners": 1}) as catalog:
            make(catalog)
        made[make.__name__] = root
    return made


def _json(edit: Edit) -> Callable[[bytes], bytes]:
    def craft(data: bytes) -> bytes:
        found = json.loads(data)
        found.pop(KEY)
        edit(found)
        return seal_json(json.dumps(found, indent=2).encode())

    return craft


def _avro(schema: Any, edit: Edit) -> Callable[[bytes], bytes]:
    def craft(data: bytes) -> bytes:
        records = list(read_records(data))
        for record in records:
            edit(record)
        return write_records(schema, records)

    return craft


SNAPSHOT_FIELDS = {
    "baseManifestList": "manifest",
    "deltaManifestList": "manifest",
    "changelogManifestList": "manifest",
    "indexManifest": "manifest",
    "statistics": "statistics",
}
DATA = "dt=x/bucket-0"
MANIFESTS = "manifest/manifest-(?!list).*"
READS = ("read", "commit", "compact", "expire", "clean")


@dataclass(frozen=True)
class Crafted:
    """Files of a table that are made anew.

    Args:
        pattern: of their paths.
        refused: steps of `_work` that are refused then; the others may pass what is wrong over.
    """

    pattern: str
    craft: Callable[[bytes], bytes]
    refused: tuple[str, ...]
    table: str = "_plain"


def _snapshot(field: str, pattern: str, *refused: str) -> Crafted:
    name = _outside(SNAPSHOT_FIELDS[field])
    return Crafted(pattern, _json(lambda found: found.update({field: name})), refused)


def _manifest(*refused: str, **changed: Any) -> Crafted:
    edit = _avro(avro_schemas.MANIFEST_ENTRY, lambda record: record["_FILE"].update(changed))
    return Crafted(MANIFESTS, edit, refused)


def _index(*refused: str, **changed: Any) -> Crafted:
    edit = _avro(avro_schemas.INDEX_MANIFEST_ENTRY, lambda record: record.update(changed))
    return Crafted("manifest/index-manifest-.*", edit, refused, "_marked")


CRAFTED = {
    **{
        f"{field} of snapshots": _snapshot(field, r"snapshot/snapshot-\d+", *READS)
        for field in SNAPSHOT_FIELDS
    },
    "a tag": _snapshot("deltaManifestList", "tag/tag-.*", "read a tag", "expire", "clean"),
    "a branch": _snapshot(
        "deltaManifestList", r"branch/.*/snapshot/snapshot-\d+", "read a branch", "expire", "clean"
    ),
    "manifest lists": Crafted(
        "manifest/manifest-list-.*",
        _avro(
            avro_schemas.MANIFEST_LIST, lambda each: each.update(_FILE_NAME=_outside("manifest"))
        ),
        READS,
    ),
    "manifests": _manifest(*READS, _FILE_NAME=_outside(DATA)),
    "extra files": _manifest(*READS, _EXTRA_FILES=[_outside(DATA)]),
    "index manifests": _index(*READS, _FILE_NAME=_outside("index")),
    "index manifests that lead elsewhere": _index("commit", _EXTERNAL_PATH=_outside("")),
}


def _with_sizes(table: Path) -> None:
    """Let manifest lists say how large the manifests are that were made anew."""
    for path in table.glob("manifest/manifest-list-*"):
        records = list(read_records(path.read_bytes()))
        for record in records:
            manifest = table / "manifest" / record["_FILE_NAME"]
            record["_FILE_SIZE"] = manifest.stat().st_size
        path.write_bytes(write_records(avro_schemas.MANIFEST_LIST, records))


def _work(warehouse: Path) -> list[str]:
    """Everything that reads or deletes files, on a crafted table; what was not refused."""
    done = []
    steps: dict[str, Callable[[pkray.Catalog], object]] = {
        "read": lambda catalog: catalog.load_table(script.NAME).to_arrow(),
        "read a tag": lambda catalog: catalog.load_table(script.NAME).to_arrow(tag="v1"),
        "read a branch": lambda catalog: catalog.load_table(
            f"{script.NAME}$branch_side"
        ).to_arrow(),
        "look up": script.on_table(
            lambda t: t.lookup([{"k": 1, "dt": "x"}], visibility="committed")
        ),
        "changelog": script.on_table(lambda table: table.changelog(1)),
        "statistics": lambda catalog: catalog.load_table(f"{script.NAME}$statistics").to_arrow(),
        "files": lambda catalog: catalog.load_table(f"{script.NAME}$files").to_arrow(),
        "commit": script.commit("b", 0, {(5, "x"): 55}),
        "compact": script.compact(full=True),
        "drop a partition": script.on_table(lambda table: table.drop_partitions([{"dt": "x"}])),
        "rescale": script.on_table(lambda table: table.rescale(2)),
        "expire": script.on_table(lambda table: table.expire_snapshots(1, 1, script.FOREVER)),
        "clean": script.on_table(lambda table: table.remove_orphan_files(script.FOREVER)),
        "fast-forward": script.on_table(lambda table: table.branches.fast_forward("side")),
        "delete a branch": script.on_table(lambda table: table.branches.delete("side")),
        "roll back": script.on_table(lambda table: table.rollback_to(1)),
        "delete a tag": script.on_table(lambda table: table.tags.delete("v1")),
        "drop": lambda catalog: catalog.drop_table(script.NAME),
    }
    for name, step in steps.items():
        with pkray.connect(str(warehouse), runtime_options={"owners": 1}) as catalog:
            try:
                step(catalog)
                done.append(name)
            except PkrayError:
                pass
    return done


@pytest.mark.parametrize("what", CRAFTED)
def test_a_crafted_name_reaches_nothing_outside(what, warehouses, tmp_path):
    crafted = CRAFTED[what]
    root = tmp_path / "copy"
    shutil.copytree(warehouses[crafted.table], root)
    table, victim = root / TABLE, root / VICTIM
    for path in sorted(table.rglob("*")):
        if re.fullmatch(crafted.pattern, str(path.relative_to(table))):
            victim.write_bytes(path.read_bytes())
            path.write_bytes(crafted.craft(path.read_bytes()))
    if crafted.pattern == MANIFESTS:
        _with_sizes(table)
    kept, beside = victim.read_bytes(), sorted(root.iterdir())
    done = _work(root / "w")
    assert victim.read_bytes() == kept
    assert sorted(root.iterdir()) == beside
    assert not set(crafted.refused) & set(done)


@pytest.fixture
def copy(warehouses, tmp_path) -> Path:
    root = tmp_path / "copy"
    shutil.copytree(warehouses["_plain"], root)
    return root


@pytest.mark.parametrize("key", ["data-file.prefix", "changelog-file.prefix"])
def test_a_crafted_schema_writes_nothing_outside(copy, key):
    schema = copy / TABLE / "schema/schema-0"
    edit = _json(lambda found: found["options"].update({key: _outside(DATA)}))
    schema.write_bytes(edit(schema.read_bytes()))
    beside = sorted(copy.iterdir())
    with pkray.connect(str(copy / "w"), runtime_options={"owners": 1}) as catalog:
        with pytest.raises(OptionError, match="without slashes"):
            script.commit("b", 0, {(5, "x"): 55})(catalog)
        table = catalog.load_table(script.NAME)
        with pytest.raises(OptionError, match="without slashes"):
            table.alter.set_options({"bucket": "2"})
    assert sorted(copy.iterdir()) == beside


def test_options_are_checked_when_they_are_altered(copy):
    with pkray.connect(str(copy / "w"), runtime_options={"owners": 1}) as catalog:
        with pytest.raises(OptionError, match="without slashes"):
            catalog.load_table(script.NAME).alter.set_options({"data-file.prefix": _outside(DATA)})


@pytest.mark.parametrize("total", [0, -1])
def test_a_crafted_number_of_buckets_is_no_way_to_rows(copy, total):
    craft = _avro(avro_schemas.MANIFEST_ENTRY, lambda record: record.update(_TOTAL_BUCKETS=total))
    for path in (copy / TABLE).glob("manifest/manifest-*"):
        if "list" not in path.name:
            path.write_bytes(craft(path.read_bytes()))
    _with_sizes(copy / TABLE)
    with pkray.connect(str(copy / "w"), runtime_options={"owners": 1}) as catalog:
        with pytest.raises(PkrayError, match=f"spread over {total} buckets"):
            catalog.load_table(script.NAME).lookup([{"k": 1, "dt": "x"}], visibility="committed")


@pytest.fixture
def linked(copy) -> Path:
    """A folder outside with old files, to which links in the warehouse lead."""
    folder = copy / "outside"
    (folder / "bucket-0").mkdir(parents=True)
    (folder / "bucket-0/data-old.parquet").write_bytes(b"kept")
    (copy / TABLE / "dt=z").symlink_to(folder)
    return folder


def test_orphans_are_not_looked_for_behind_links(copy, linked):
    with pkray.connect(str(copy / "w"), runtime_options={"owners": 1}) as catalog:
        catalog.load_table(script.NAME).remove_orphan_files(script.FOREVER)
    assert (linked / "bucket-0/data-old.parquet").read_bytes() == b"kept"


def test_a_dropped_table_takes_its_links_and_not_what_they_lead_to(copy, linked):
    with pkray.connect(str(copy / "w"), runtime_options={"owners": 1}) as catalog:
        catalog.drop_table(script.NAME)
    assert not (copy / TABLE).exists()
    assert (linked / "bucket-0/data-old.parquet").read_bytes() == b"kept"


@pytest.mark.parametrize("link", ["shop.db/orders", "shop.db"])
def test_what_lies_outside_the_warehouse_is_not_dropped(copy, link):
    inside, outside = copy / "w" / link, copy / "elsewhere"
    inside.rename(outside)
    inside.symlink_to(outside)
    files = sorted(outside.rglob("*"))
    with pkray.connect(str(copy / "w"), runtime_options={"owners": 1}) as catalog:
        with pytest.raises(StorageError, match="a link leads from there"):
            catalog.drop_database("shop", cascade=True)
        assert catalog.load_table(script.NAME).to_arrow().num_rows
    assert sorted(outside.rglob("*")) == files
