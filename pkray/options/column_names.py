"""The columns that a table's options name, and what a change of columns does to them."""

from collections.abc import Callable, Mapping, Sequence

from pkray.options.fields import GROUP, PREFIX

_NAMING = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    "changelog-producer.row-deduplicate-ignore-fields",
)
"""Options whose value is names of columns."""
_NESTED_KEY = "nested-key"


def keys_naming(options: Mapping[str, str], column: str) -> list[str]:
    """Return the keys of the options that name a column."""

    def other(name: str) -> str:
        return f"{name}\0" if name == column else name

    kept = _mapped(options, other)
    return [key for key, value in options.items() if kept.get(key) != value]


def renamed(options: Mapping[str, str], column: str, new_name: str) -> dict[str, str]:
    """Write a column's new name wherever the options name it.

    Source: as Paimon does for ``bucket-key``, ``sequence.field`` and ``fields.<name>.*``; the
    other options that name columns follow too.
    """
    return _mapped(options, lambda name: new_name if name == column else name)


def nested_keys_naming(options: Mapping[str, str], column: str, field: str) -> list[str]:
    """Return the key of the column's ``nested-key``, if it names this field of its rows."""
    key = f"{PREFIX}{column}.{_NESTED_KEY}"
    return [key] if field in _split(options.get(key, "")) else []


def renamed_nested(
    options: Mapping[str, str], column: str, field: str, new_name: str
) -> dict[str, str]:
    """Write the new name of a field of the column's rows wherever the options name it."""
    changed = dict(options)
    for key in nested_keys_naming(options, column, field):
        names = _split(options[key])
        changed[key] = ",".join(new_name if name == field else name for name in names)
    return changed


def _mapped(options: Mapping[str, str], name_of: Callable[[str], str]) -> dict[str, str]:
    def joined(text: str) -> str:
        names = _split(text)
        mapped = [name_of(name) for name in names]
        return text if mapped == names else ",".join(mapped)

    changed: dict[str, str] = {}
    for key, value in options.items():
        if key in _NAMING:
            changed[key] = joined(value)
        elif key.startswith(PREFIX):
            names, _, option = key.removeprefix(PREFIX).rpartition(".")
            key = f"{PREFIX}{joined(names)}.{option}" if names else key
            changed[key] = joined(value) if option == GROUP else value
        else:
            changed[key] = value
    return changed


def _split(text: str) -> Sequence[str]:
    return [name.strip() for name in text.split(",")]
