"""Takes out of texts what a file for others may not hold: secrets, and values of rows."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from pkray.storage.secrets import HIDDEN, Secret, redact, shown_url

MASKED = "…"
_LEAST_SECRET = 6
"""Characters of an environment's value: shorter ones are switches, and stand in every text."""
_SECRET_WORDS = (
    r"pass(?:word|wd)?|secret|token|credential|api[._-]?key|private|auth\w*|sasl|dsn|sas"
)
_SECRET_NAME = re.compile(rf"{_SECRET_WORDS}|(?:^|[._-])(?:key|sas|auth)$", re.IGNORECASE)
_GIVEN = re.compile(
    rf"([\w.-]*(?:{_SECRET_WORDS})[\w.-]*[\"']?\s*[=:]\s*)"
    r"(?:(?:bearer|basic)\s+)?(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s,;\"'&]+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_SINGLE = re.compile(r"(?<!\w)(b?)'((?:[^'\n]|'(?=\w))*)'")
_DOUBLE = re.compile(r'(?<!File )(?<!\w)"([^"\n]*)"')
_OF_ROW = re.compile(r"(; the row has )[^\n]*")
_CAST = re.compile(r"[^\s;]+( \([A-Z][A-Z0-9_(), ]*\) cannot be cast)")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s\"'<>]+")


class Mask:
    """Masks texts, and what has texts within.

    Args:
        options: storage options of the warehouse, as `pkray.storage.secrets.hide` gives them.
        names: of tables, columns, options and queries: they stay where they are quoted, all other
            quoted texts may be values of rows.
    """

    def __init__(self, options: Mapping[str, Any], names: Collection[str] = ()) -> None:
        around = {
            name: Secret(value)
            for name, value in os.environ.items()
            if _SECRET_NAME.search(name) and len(value) >= _LEAST_SECRET
        }
        self._secrets = {**around, **options}
        self._names = frozenset(names)

    def text(self, text: str) -> str:
        """Remove secrets: those that are known, and what stands after the name of one."""
        known = redact(text, self._secrets)
        safe = _URL.sub(lambda found: shown_url(found[0]), known)
        return _BEARER.sub(rf"\1 {HIDDEN}", _GIVEN.sub(rf"\1{HIDDEN}", safe))

    def message(self, text: str) -> str:
        """Remove secrets, values of rows where errors have them, and quoted texts but for names: an
        error may quote a value of a row."""
        bare = _CAST.sub(rf"{MASKED}\1", _OF_ROW.sub(rf"\1{MASKED}", self.text(text)))
        single = _SINGLE.sub(lambda found: f"{found[1]}'{self._named(found[2])}'", bare)
        return _DOUBLE.sub(lambda found: f'"{self._named(found[1])}"', single)

    def log(self, text: str) -> str:
        """Mask the lines of a log, of which some may be JSON."""
        return "\n".join(map(self._line, text.splitlines()))

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Mask values: those of names that say so, and secrets in all others."""
        return {
            name: HIDDEN if _SECRET_NAME.search(name) else self.within(value)
            for name, value in given.items()
        }

    def within(self, value: Any) -> Any:
        """Remove secrets from all texts in a value of JSON."""
        return _mapped(value, self.text)

    def _line(self, line: str) -> str:
        if line.startswith("{"):
            try:
                found = msgspec.json.decode(line.encode())
            except msgspec.DecodeError:
                return self.message(line)
            return msgspec.json.encode(_mapped(found, self.message, by_key=True)).decode()
        return self.message(line)

    def _named(self, quoted: str) -> str:
        return quoted if quoted in self._names else MASKED


def _mapped(value: Any, function: Callable[[str], str], *, by_key: bool = False) -> Any:
    """Map all texts in a value of JSON.

    Args:
        by_key: hide those whose key is the name of a secret.
    """
    if isinstance(value, str):
        return function(value)
    if isinstance(value, Mapping):
        return {
            key: HIDDEN
            if by_key and isinstance(each, str) and _SECRET_NAME.search(key)
            else _mapped(each, function, by_key=by_key)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_mapped(each, function, by_key=by_key) for each in value]
    return value
