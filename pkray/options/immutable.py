"""Options that a table keeps once it has rows.

Source: Paimon's immutable options, and those by which files that are there were laid out.
"""

from collections.abc import Collection, Mapping

from pkray.errors import OptionError
from pkray.options.table_options import TableOptions

_FIXED = frozenset(
    {
        "bucket-key",
        "bucket-function.type",
        "merge-engine",
        "sequence.field",
        "sequence.field.sort-order",
        "rowkind.field",
        "partial-update.remove-record-on-delete",
        "aggregation.remove-record-on-delete",
        "partition.default-name",
        "partition.legacy-name",
        "primary-key",
        "partition",
        "path",
    }
)
_ONE_WAY = ("ignore-delete", "ignore-update-before")
"""May become true, not false again: rows that were ignored do not come back."""
_VECTORS = "deletion-vectors.enabled"


def check_set(options: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Whether these options of a table with rows may be set.

    Raises:
        OptionError: one of them is fixed.
    """
    was = TableOptions.parse(options, strict=False)
    will_be = TableOptions.parse({**options, **new}, strict=False)
    for key in new:
        if key in _FIXED and options.get(key) != new[key]:
            raise _fixed(key, options.get(key), new[key])
    if was.bucket != will_be.bucket:
        raise OptionError(
            f"option 'bucket' cannot change from {was.bucket} to {will_be.bucket} by itself: rows "
            "are spread over the buckets; use table.rescale",
            key="bucket",
            value=new["bucket"],
        )
    if (was.ignore_delete and not will_be.ignore_delete) or (
        was.ignore_update_before and not will_be.ignore_update_before
    ):
        key = next(key for key in new if key.endswith(_ONE_WAY))
        raise _fixed(key, options.get(key), new[key])
    if was.deletion_vectors_enabled != will_be.deletion_vectors_enabled:
        raise _fixed(_VECTORS, options.get(_VECTORS), new[_VECTORS])
    _check_levels(was, will_be)


def check_unset(options: Mapping[str, str], keys: Collection[str], *, has_snapshots: bool) -> None:
    """Whether these options may be unset.

    Raises:
        OptionError: one of them is not set, is fixed, or has no default.
    """
    for key in keys:
        if key not in options:
            raise OptionError(
                f"option {key!r} is not set; set are {', '.join(sorted(options))}", key=key
            )
        if key == "bucket":
            raise OptionError(
                "option 'bucket' cannot be unset: a table keeps its number of buckets", key=key
            )
        one_way = key.endswith(_ONE_WAY) and options[key].lower() == "true"
        vectors = key == _VECTORS and options[key].lower() == "true"
        if has_snapshots and (key in _FIXED or one_way or vectors):
            raise _fixed(key, options[key], None)
    if has_snapshots:
        left = {key: value for key, value in options.items() if key not in keys}
        _check_levels(
            TableOptions.parse(options, strict=False), TableOptions.parse(left, strict=False)
        )


def _check_levels(was: TableOptions, will_be: TableOptions) -> None:
    """Check that the highest level stays: full compactions compare with what is in it."""
    if {was.changelog_producer, will_be.changelog_producer} != {"full-compaction"}:
        return
    if was.num_levels != will_be.num_levels:
        raise OptionError(
            f"the table cannot have {will_be.num_levels} levels in place of {was.num_levels}: full "
            "compactions find their changes by comparing with the highest level; keep it, "
            f"with 'num-levels' = '{was.num_levels}' next to 'num-sorted-run.compaction-trigger' = "
            f"'{will_be.compaction_trigger}'",
            key="num-levels",
            old=was.num_levels,
            value=will_be.num_levels,
        )


def _fixed(key: str, old: str | None, new: str | None) -> OptionError:
    return OptionError(
        f"option {key!r} cannot change from {old or 'its default'} to {new or 'its default'}: the "
        "table has rows that were written by it; create another table and copy the rows",
        key=key,
        old=old,
        value=new,
    )
