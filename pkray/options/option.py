"""One option: its key, what it takes, its default and its meaning."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from pkray.errors import OptionError
from pkray.options.values import Kind


@dataclass(frozen=True)
class Option:
    """One key of the catalogue.

    Args:
        attribute: its name on :class:`TableOptions`.
        default: None where the default depends on other options or there is none.
        aliases: older keys with the same meaning.
        only: the values pkray implements, of those that Paimon has; empty: all.
    """

    key: str
    attribute: str
    kind: Kind
    default: Any
    doc: str
    aliases: tuple[str, ...] = ()
    only: tuple[Any, ...] = ()

    def parse(self, key: str, text: str) -> Any:
        """Parse the ``text`` given under ``key`` (this option's or an alias).

        Raises:
            OptionError: it is not a value of this option.
        """
        try:
            return self.kind.parse(text)
        except ValueError:
            raise OptionError(
                f"option {key!r} cannot be {text!r}: it takes {self.kind.allowed}",
                key=key,
                value=text,
                allowed=self.kind.allowed,
            ) from None


def option(
    key: str,
    kind: Kind,
    default: Any,
    doc: str,
    aliases: tuple[str, ...] = (),
    only: tuple[Any, ...] = (),
) -> Any:
    """Make a field of a dataclass of options: its default, and what :class:`Option` says of it."""
    described = {"option": (key, kind, doc, aliases, only)}
    return field(default=default, metadata=described)


def options_of(described: type) -> Iterator[Option]:
    """Yield the options among the fields of a dataclass."""
    for attribute in fields(described):
        if "option" in attribute.metadata:
            key, kind, doc, aliases, only = attribute.metadata["option"]
            yield Option(key, attribute.name, kind, attribute.default, doc, aliases, only)
