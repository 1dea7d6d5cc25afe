"""Options of single columns: ``fields.<name>.<option>``."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pkray.errors import OptionError, UnsupportedError
from pkray.options.option import Option
from pkray.options.values import BOOLEAN, NAMES, STRING, Kind, choice

PREFIX = "fields."
GROUP = "sequence-group"

# first_not_null_value is the older spelling of first_non_null_value.
AGGREGATE_FUNCTIONS = (
    "sum",
    "product",
    "count",
    "min",
    "max",
    "last_value",
    "last_non_null_value",
    "first_value",
    "first_non_null_value",
    "first_not_null_value",
    "listagg",
    "bool_and",
    "bool_or",
    "collect",
    "merge_map",
    "nested_update",
    "rbm32",
    "rbm64",
    "hll_sketch",
    "theta_sketch",
)
# Paimon has them, pkray does not: why.
UNSUPPORTED_FUNCTIONS = {
    "rbm64": "Paimon keeps Roaring64Bitmap's own bytes, which no library but Java's reads"
}
FUNCTION = choice(*AGGREGATE_FUNCTIONS)


@dataclass(frozen=True)
class FieldOptions:
    """Options ``fields.<name>.*`` of one column."""

    aggregate_function: str | None = None
    ignore_retract: bool = False
    list_agg_delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    default_value: str | None = None
    stats_mode: str | None = None


@dataclass(frozen=True)
class SequenceGroup:
    """Columns that are updated together, by the row whose sequence columns are largest."""

    sequence_fields: tuple[str, ...]
    fields: tuple[str, ...]


# Delimiters and default values keep their blanks.
_VERBATIM = Kind("text", str, "text")
_OF_COLUMN: dict[str, tuple[str, Kind, str]] = {
    "aggregate-function": ("aggregate_function", FUNCTION, "How the values of a key become one."),
    "ignore-retract": ("ignore_retract", BOOLEAN, "-U and -D rows leave the value as it is."),
    "list-agg-delimiter": ("list_agg_delimiter", _VERBATIM, "Between the texts of listagg."),
    "distinct": ("distinct", BOOLEAN, "listagg and collect keep each value once."),
    "nested-key": ("nested_key", NAMES, "Fields by which nested_update replaces rows."),
    "default-value": ("default_value", _VERBATIM, "What readers see in place of null."),
    "stats-mode": ("stats_mode", STRING, "Statistics of the column, as metadata.stats-mode."),
}
_OF_GROUP = "Columns of partial-update that the row with the largest of these columns updates."
_NOT_IMPLEMENTED = {"prefix-length", "count-limit"}


def parse_field_options(
    options: Mapping[str, str], *, strict: bool
) -> tuple[dict[str, FieldOptions], tuple[SequenceGroup, ...]]:
    """Parse options by column, and the sequence groups in the order of their keys.

    Raises:
        OptionError: an unknown option of a column, or a bad value.
    """
    by_field: dict[str, FieldOptions] = {}
    groups: list[SequenceGroup] = []
    for key in sorted(options):
        text = options[key]
        name, _, option = key.removeprefix(PREFIX).rpartition(".")
        if name and option == GROUP:
            groups.append(SequenceGroup(NAMES.parse(name), NAMES.parse(text)))
        elif name and option in _OF_COLUMN:
            attribute, kind, _ = _OF_COLUMN[option]
            change: dict[str, Any] = {attribute: _parse(key, text, kind)}
            by_field[name] = replace(by_field.get(name, FieldOptions()), **change)
        elif strict:
            raise _unknown(key, name, option)
    return by_field, tuple(groups)


def field_catalogue() -> Iterator[Option]:
    """Yield the options of single columns."""
    for option, (attribute, kind, doc) in _OF_COLUMN.items():
        default = getattr(FieldOptions(), attribute)
        yield Option(f"{PREFIX}<column>.{option}", attribute, kind, default, doc)
    yield Option(f"{PREFIX}<columns>.{GROUP}", "sequence_groups", NAMES, (), _OF_GROUP)


def _parse(key: str, text: str, kind: Kind) -> Any:
    try:
        return text if kind is _VERBATIM else kind.parse(text)
    except ValueError:
        raise OptionError(
            f"option {key!r} cannot be {text!r}: it takes {kind.allowed}",
            key=key,
            value=text,
            allowed=kind.allowed,
        ) from None


def _unknown(key: str, name: str, option: str) -> OptionError | UnsupportedError:
    if option in _NOT_IMPLEMENTED:
        return UnsupportedError(f"option {key!r} is not supported", options=(key,))
    known = [*_OF_COLUMN, GROUP]
    match = difflib.get_close_matches(option, known, n=1, cutoff=0.5)
    nearest = f"{PREFIX}{name or '<column>'}.{match[0]}" if match else None
    hint = f"did you mean {nearest!r}?" if nearest else f"columns have {', '.join(known)}"
    return OptionError(f"there is no option {key!r}; {hint}", key=key, nearest=nearest)
