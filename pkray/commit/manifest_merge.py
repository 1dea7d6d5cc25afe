"""Keeps the manifests of a table few, at a cost a commit that does not grow with their number."""

from collections.abc import Sequence

from pkray.commit.manifest_files import ENTRY_BYTES, ManifestFiles
from pkray.format.manifest import ManifestFileMeta
from pkray.metadata.live import merge_entries, read_entries
from pkray.options import TableOptions
from pkray.storage.object_store import ObjectStore


def plan_merge(manifests: Sequence[ManifestFileMeta], options: TableOptions) -> slice | None:
    """Choose which manifests to rewrite into one; None for none.

    All of them once they exceed ``manifest.full-compaction-threshold-size`` and more than half
    of their entries cancel each other out. Else, when ``manifest.merge-min-count`` manifests
    are smaller than ``manifest.target-file-size`` since the last one that is not, the newest of
    these: going back in time while none has more entries than all newer ones together. So every
    entry is rewritten a logarithmic number of times.
    """
    added = sum(manifest.num_added_files for manifest in manifests)
    deleted = sum(manifest.num_deleted_files for manifest in manifests)
    size = sum(manifest.file_size for manifest in manifests)
    full_size = options.manifest_full_compaction_threshold_size
    if len(manifests) > 1 and size >= full_size and 2 * deleted > added - deleted:
        return slice(0, len(manifests))
    small = 0
    for manifest in reversed(manifests):
        if manifest.file_size >= options.manifest_target_file_size:
            break
        small += 1
    if small < max(2, options.manifest_merge_min_count):
        return None
    taken = entries = 0
    for manifest in reversed(manifests[-small:]):
        weight = manifest.num_added_files + manifest.num_deleted_files
        if taken >= 2 and weight > entries:
            break
        taken += 1
        entries += weight
    return slice(len(manifests) - taken, len(manifests))


def merge_manifests(
    store: ObjectStore,
    manifests: Sequence[ManifestFileMeta],
    files: ManifestFiles,
    options: TableOptions,
) -> list[ManifestFileMeta]:
    """Rewrite some of the manifests as planned; what they say is the same."""
    plan = plan_merge(manifests, options)
    if plan is None:
        return list(manifests)
    chosen = manifests[plan]
    added, deletions = merge_entries(read_entries(store, chosen))
    count = sum(manifest.num_added_files + manifest.num_deleted_files for manifest in chosen)
    size = sum(manifest.file_size for manifest in chosen)
    # Deletions are of files in older manifests: they go first, should a file have come back.
    entry_bytes = min(size // max(1, count), 4 * ENTRY_BYTES)
    merged = files.write_manifests([*deletions, *added], entry_bytes)
    return [*manifests[: plan.start], *merged, *manifests[plan.stop :]]
