"""Options of merging: how the rows of one key become one."""

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import BOOLEAN, NAMES, STRING, choice

_IGNORE_DELETE = tuple(
    f"{engine}.ignore-delete" for engine in ("first-row", "deduplicate", "partial-update")
)


@dataclass(frozen=True)
class MergingOptions:
    """Options of how rows of one key become one."""

    merge_engine: str = option(
        "merge-engine",
        choice("deduplicate", "partial-update", "aggregation", "first-row"),
        "deduplicate",
        "How rows of one key become one.",
    )
    sequence_field: tuple[str, ...] = option(
        "sequence.field", NAMES, (), "Columns that order the rows of a key; arrival if unset."
    )
    sequence_field_sort_order: str = option(
        "sequence.field.sort-order",
        choice("ascending", "descending"),
        "ascending",
        "Whether the largest or the smallest sequence wins.",
    )
    rowkind_field: str | None = option(
        "rowkind.field", STRING, None, "Column that holds the row kind: +I, -U, +U or -D."
    )
    ignore_delete: bool = option(
        "ignore-delete", BOOLEAN, False, "Drop -D (and -U) rows.", _IGNORE_DELETE
    )
    ignore_update_before: bool = option("ignore-update-before", BOOLEAN, False, "Drop -U rows.")
    partial_update_remove_record_on_delete: bool = option(
        "partial-update.remove-record-on-delete", BOOLEAN, False, "A -D removes the whole row."
    )
    aggregation_remove_record_on_delete: bool = option(
        "aggregation.remove-record-on-delete", BOOLEAN, False, "A -D removes the whole row."
    )
    default_aggregate_function: str | None = option(
        "fields.default-aggregate-function", STRING, None, "Function of columns without their own."
    )

    @property
    def deletes_reset(self) -> bool:
        """Whether a -D makes what was before it as if it had never been."""
        return {
            "partial-update": self.partial_update_remove_record_on_delete,
            "aggregation": self.aggregation_remove_record_on_delete,
        }.get(self.merge_engine, False)

    @property
    def sequence_field_descending(self) -> bool:
        return self.sequence_field_sort_order == "descending"
