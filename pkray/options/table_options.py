"""A table's options as a whole: the subjects together, and how they are read."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

from pkray.errors import OptionError, UnsupportedError
from pkray.options.buckets import POSTPONE, BucketOptions, postponed
from pkray.options.changelog import ChangelogOptions
from pkray.options.compaction import CompactionOptions
from pkray.options.fields import FieldOptions, SequenceGroup, parse_field_options
from pkray.options.files import FileOptions
from pkray.options.memory import MemoryOptions
from pkray.options.merging import MergingOptions
from pkray.options.option import Option, options_of
from pkray.options.others import NOT_IMPLEMENTED, WITHOUT_EFFECT
from pkray.options.partitions import PartitionOptions
from pkray.options.queries import COMPUTED_KEY, QueryOptions
from pkray.options.reading import ReadingOptions
from pkray.options.service import ServiceOptions
from pkray.options.snapshots import SnapshotOptions


@dataclass(frozen=True)
class TableOptions(
    BucketOptions,
    PartitionOptions,
    MergingOptions,
    ChangelogOptions,
    CompactionOptions,
    MemoryOptions,
    FileOptions,
    SnapshotOptions,
    ReadingOptions,
    QueryOptions,
    ServiceOptions,
):
    """The typed view of a table's options. Sizes are bytes, durations milliseconds.

    Defaults are Paimon 0.9's. ``num_levels`` and ``num_sorted_run_stop_trigger`` follow the
    compaction trigger where they are unset. An absent ``bucket`` means -1 (dynamic buckets), as in
    Paimon; creating a table without one writes ``bucket`` = 1 into its schema.
    """

    fields: Mapping[str, FieldOptions] = field(default_factory=dict)
    sequence_groups: tuple[SequenceGroup, ...] = ()
    unsupported: tuple[str, ...] = ()

    def of_field(self, name: str) -> FieldOptions:
        """Return the options ``fields.<name>.*``, defaults where there are none."""
        return self.fields.get(name, FieldOptions())

    def require_supported(self) -> None:
        """Refuse to go on with options of another engine's table that pkray would not honour.

        Raises:
            UnsupportedError: naming each such option.
        """
        if self.unsupported:
            raise UnsupportedError("; ".join(self.unsupported), options=self.unsupported)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, strict: bool = True) -> Self:
        """Parse ``options`` to typed ones.

        Args:
            strict: refuse keys that nobody knows, empty values, and values that pkray does not
                implement. False is for tables that are there already: unknown keys are let be, and
                what pkray does not implement is listed in ``unsupported``.

        Raises:
            OptionError: an unknown key (naming the nearest), or a bad value.
            UnsupportedError: a Paimon option or value that pkray does not implement.
        """
        values: dict[str, Any] = {}
        unsupported: list[str] = []
        by_field: dict[str, str] = {}
        for key, text in options.items():
            option = _by_key().get(key)
            if not isinstance(text, str):
                raise OptionError(
                    f"option {key!r} is {text!r}: option values are text, so {_remedy(text)}",
                    key=key,
                    value=text,
                )
            if strict and option is not None and not text.strip():
                raise OptionError(
                    f"option {key!r} cannot be {text!r}: it takes {option.kind.allowed}; leave it "
                    "out, or reset it, for its default",
                    key=key,
                    value=text,
                    allowed=option.kind.allowed,
                )
            if key == "bucket" and text.strip() == POSTPONE:
                raise postponed(text)
            if option is not None:
                value = option.parse(key, text)
                if option.only and value not in option.only:
                    unsupported.append(_refusal(option, key, text))
                if key == option.key or option.attribute not in values:
                    values[option.attribute] = value
            elif key.startswith("fields."):
                by_field[key] = text
            elif key in NOT_IMPLEMENTED:
                harmless, reason = NOT_IMPLEMENTED[key]
                if text.lower() != harmless:
                    unsupported.append(f"option {key!r} = {text!r} is not supported: {reason}")
            elif strict and key not in WITHOUT_EFFECT and not COMPUTED_KEY.fullmatch(key):
                raise _unknown(key)
        per_field, groups = parse_field_options(by_field, strict=strict)
        parsed = cls(
            **values, fields=per_field, sequence_groups=groups, unsupported=tuple(unsupported)
        )
        if strict:
            parsed.require_supported()
        return parsed


def catalogue() -> Iterator[Option]:
    """List every option that pkray knows and honours, subject by subject."""
    return options_of(TableOptions)


@cache
def _by_key() -> dict[str, Option]:
    return {key: option for option in catalogue() for key in (option.key, *option.aliases)}


def _refusal(option: Option, key: str, text: str) -> str:
    taken = " or ".join(str(value).lower() for value in option.only)
    return f"option {key!r} = {text!r} is not supported: pkray takes {taken}"


def _unknown(key: str) -> OptionError:
    known = [*_by_key(), *NOT_IMPLEMENTED, *WITHOUT_EFFECT]
    nearest = difflib.get_close_matches(key.lower().replace("_", "-"), known, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else "; 'pkray options' lists them"
    return OptionError(
        f"there is no option {key!r}{hint}", key=key, nearest=nearest[0] if nearest else None
    )


def as_options(given: object) -> dict[str, str]:
    """Take what a user gave as options; values are looked at later on.

    Raises:
        OptionError: it is no mapping, nor pairs; or two pairs set one option.
    """
    try:
        options = dict(given)  # type: ignore[call-overload] # what else there is, is refused
    except (TypeError, ValueError):
        raise OptionError(
            f"options cannot be {given!r}: give a mapping such as {{'bucket': '4'}}", value=given
        ) from None
    if not isinstance(given, Mapping):
        set_by: dict[str, object] = {}
        for key, value in given:  # type: ignore[attr-defined] # dict took them as pairs
            if key in set_by:
                raise OptionError(
                    f"option {key!r} is set twice, to {set_by[key]!r} and to {value!r}: keep one",
                    key=key,
                )
            set_by[key] = value
    return options


def _remedy(value: object) -> str:
    """Say what to give in the place of a value that is no text."""
    if value is None:
        return "leave it out"
    text = str(value)
    return f"write {(text.lower() if isinstance(value, bool) else text)!r}"
