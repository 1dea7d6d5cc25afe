"""Types as text: Paimon's SQL types and their JSON form, read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pkray.errors import SchemaError, UnsupportedError
from pkray.schema.types import DEFAULT_LENGTH, DEFAULT_PRECISION, ROOTS, DataField, DataType

_SYNONYMS = {"INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL"}
_UNSUPPORTED = {
    "MULTISET": "use MAP<element, INT NOT NULL>",
    "VARIANT": "use STRING with JSON in it",
    "BLOB": "use BYTES",
    "VECTOR": "use ARRAY<FLOAT>",
}


def parse(text_or_json: object) -> DataType:
    """The type; see :meth:`DataType.parse`."""
    if isinstance(text_or_json, str):
        return _Parser(text_or_json).parse()
    if isinstance(text_or_json, Mapping) and isinstance(text_or_json.get("type"), str):
        return _parse_json(text_or_json)
    raise SchemaError(
        f"{text_or_json!r} is not a type: write it as text, such as 'BIGINT NOT NULL'",
        value=text_or_json,
    )


def _parse_json(json: Mapping[str, Any]) -> DataType:
    words = json["type"].upper().split()
    root, nullable = words[0] if words else "", words[-2:] != ["NOT", "NULL"]
    _refuse(root)
    try:
        if root == "ARRAY" and "element" in json:
            return DataType("ARRAY", nullable, element=DataType.parse(json["element"]))
        if root == "MAP" and "key" in json:
            key, value = DataType.parse(json["key"]), DataType.parse(json["value"])
            return DataType("MAP", nullable, key=key, value=value)
        if root == "ROW" and "fields" in json:
            fields = tuple(DataField.from_json(field) for field in json["fields"])
            return DataType("ROW", nullable, fields=fields)
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"not a type: {dict(json)!r}", value=dict(json)) from error
    return DataType.parse(json["type"])


def _refuse(root: str) -> None:
    """Types that Paimon has and pkray does not."""
    if root in _UNSUPPORTED:
        raise UnsupportedError(f"type {root} is not supported: {_UNSUPPORTED[root]}", type=root)


_SHOWN = 200
"""Characters of a text that an error repeats."""
_TOKEN = re.compile(r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+)|(?P<mark>[<>(),]))")


class _Parser:
    """Recursive descent over SQL type text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenise(text))
        self._next = 0
        self._field_id = 0

    def _tokenise(self, text: str) -> Iterator[str]:
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._error(f"unexpected {text[position:].strip()[:10]!r}")
            yield match.group().strip()
            position = match.end()

    def parse(self) -> DataType:
        parsed = self._type()
        if self._next < len(self._tokens):
            raise self._error(f"unexpected {self._tokens[self._next]!r}")
        return parsed

    def _error(self, what: str) -> SchemaError:
        return SchemaError(
            f"{self._text[:_SHOWN]!r} is not a type: {what}; "
            "write for example BIGINT NOT NULL, DECIMAL(20, 4) or TIMESTAMP(6)",
            value=self._text,
        )

    def _take(self) -> str:
        if self._next == len(self._tokens):
            raise self._error("it ends too early")
        self._next += 1
        return self._tokens[self._next - 1]

    def _accept(self, *words: str) -> bool:
        found = self._tokens[self._next : self._next + len(words)]
        if tuple(token.upper() for token in found) != words:
            return False
        self._next += len(words)
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            raise self._error(f"{mark!r} is missing")

    def _type(self) -> DataType:
        word = self._take().upper()
        root = _SYNONYMS.get(word, word)
        _refuse(root)
        if root == "ARRAY":
            (element,) = self._arguments(1)
            bare = DataType("ARRAY", element=element)
        elif root == "MAP":
            key, value = self._arguments(2)
            bare = DataType("MAP", key=key, value=value)
        elif root == "ROW":
            bare = DataType("ROW", fields=self._row_fields())
        elif root in ROOTS:
            bare = self._scalar(root)
        else:
            raise self._error(f"there is no type {word}")
        if self._accept("NOT", "NULL"):
            return bare.with_nullable(False)
        self._accept("NULL")
        return bare

    def _scalar(self, root: str) -> DataType:
        numbers = self._numbers(2 if root == "DECIMAL" else 1)
        if numbers and root not in DEFAULT_LENGTH and root not in DEFAULT_PRECISION:
            raise self._error(f"{root} takes no parameter")
        if root == "DOUBLE":
            self._accept("PRECISION")
        if root in ("TIME", "TIMESTAMP"):
            self._accept("WITHOUT", "TIME", "ZONE")
        if root == "TIMESTAMP" and self._accept("WITH", "LOCAL", "TIME", "ZONE"):
            root = "TIMESTAMP_LTZ"
        first = numbers[0] if numbers else None
        if root in DEFAULT_LENGTH:
            return DataType(root, length=first)
        return DataType(root, precision=first, scale=numbers[1] if len(numbers) > 1 else None)

    def _numbers(self, most: int) -> list[int]:
        if not self._accept("("):
            return []
        numbers = [self._number()]
        while len(numbers) < most and self._accept(","):
            numbers.append(self._number())
        self._expect(")")
        return numbers

    def _number(self) -> int:
        token = self._take()
        if not token.isdecimal():
            raise self._error(f"a number is expected, not {token!r}")
        return int(token)

    def _arguments(self, count: int) -> list[DataType]:
        self._expect("<")
        arguments = [self._type()]
        while len(arguments) < count:
            self._expect(",")
            arguments.append(self._type())
        self._expect(">")
        return arguments

    def _row_fields(self) -> tuple[DataField, ...]:
        self._expect("<")
        fields: list[DataField] = []
        while not fields or self._accept(","):
            name = self._take()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            field_id, self._field_id = self._field_id, self._field_id + 1
            fields.append(DataField(field_id, name, self._type()))
        self._expect(">")
        return tuple(fields)
