"""Expressions as text and back, exactly.

The text reads as SQL, with operators for the functions that are operators. It is exact because each
computed value is followed by its type (``(a + 1)::INT``), unless it is a BOOLEAN that is NULL where
an operand is, and each constant by its own unless it is an INT, a STRING or a BOOLEAN. So that no
rule of typing, and no dialect, is needed to read it again.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from pkray.errors import PkrayError, QueryError
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.fields import Field, Fields
from pkray.schema.types import SPANS, DataType, interval_type

KnowsFunction = Callable[[str], bool]
"""Whether there is a function of a canonical name."""
FindUdf = Callable[[str], Any]
"""Finds a user's function by its name; None where there is none."""

MOST_LEVELS = 200
"""Most levels of brackets: a text with more would exhaust the stack of whoever reads it."""

_OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "mod": "%",
    **ir.COMPARISONS,
    "and": "AND",
    "or": "OR",
}
_FUNCTIONS = {symbol: name for name, symbol in _OPERATORS.items()}
_TESTS = {"is_null": "IS NULL", "is_not_null": "IS NOT NULL"}
_CASTS = {"raise": "CAST", "null": "TRY_CAST", "wrap": "WRAP_CAST"}
_ON_ERROR = {word: on_error for on_error, word in _CASTS.items()}
_WORDS = {
    *("AND", "AS", "CASE", "CAST", "ELSE", "END", "FALSE", "IS", "LAMBDA", "NOT", "NULL", "OR"),
    *("THEN", "TRUE", "TRY_CAST", "UDF", "WHEN", "WRAP_CAST"),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<mark>::|->|<=|>=|<>|[-+*/%=<>(),]))"
)
_PLAIN = {
    bool: DataType("BOOLEAN", nullable=False),
    int: DataType("INT", nullable=False),
    str: DataType("STRING", nullable=False),
}


def to_text(expression: ir.Expression, *, types: bool = True) -> str:
    """Write an expression.

    Args:
        types: whether types are written, so that `from_text` reads the same again; without them it
            is easier on people.
    """
    text = _write(expression, types)
    bare = not types and text.startswith("(") and _closes_at_the_end(text)
    return text[1:-1] if bare else text


def _closes_at_the_end(text: str) -> bool:
    depth = 0
    for part in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(part["mark"] or "", 0)
        if depth == 0:
            return part.end() == len(text)
    return False


def _write(value: ir.Expression, types: bool) -> str:
    match value:
        case ir.ColumnRef():
            return _name(value.name)
        case ir.Literal():
            return _literal(value, types)
        case ir.Cast():
            kind = str(value.type) if types else str(value.type.with_nullable(True))
            return f"{_CASTS[value.on_error]}({_write(value.operand, types)} AS {kind})"
        case ir.Case():
            branches = " ".join(
                f"WHEN {_write(when, types)} THEN {_write(then, types)}"
                for when, then in value.branches
            )
            text = f"CASE {branches} ELSE {_write(value.otherwise, types)} END"
            return _typed(text, value, types)
        case ir.Lambda():
            return f"LAMBDA({_parameters(value, types)} -> {_write(value.body, types)})"
        case ir.UdfCall():
            arguments = ", ".join(_write(each, types) for each in value.arguments)
            return _typed(f"UDF {_name(value.udf.name)}({arguments})", value, types)
        case ir.Chain():
            return _chain(value, types)
        case ir.Call():
            return _typed(_call(value, types), value, types)
    raise AssertionError(value)


def _call(value: ir.Call, types: bool) -> str:
    written = [_write(each, types) for each in value.arguments]
    if value.function in _OPERATORS and len(written) == 2:
        return f"({written[0]} {_OPERATORS[value.function]} {written[1]})"
    if value.function in _TESTS and len(written) == 1:
        return f"({written[0]} {_TESTS[value.function]})"
    if value.function == "not" and len(written) == 1:
        return f"(NOT {written[0]})"
    return f"{value.function}({', '.join(written)})"


def _chain(value: ir.Chain, types: bool) -> str:
    parts = [_write(value.first, types)]
    for cast, call in value.calls():
        kind = f"AS {call.arguments[0].type}, " if cast and types else ""
        operand = _write(call.arguments[1], types)
        parts.append(_typed(f"{call.function}({kind}{operand})", call, types))
    return f"CHAIN({', '.join(parts)})"


def _typed(text: str, value: ir.Expression, types: bool) -> str:
    return text if not types or value.type == _expected(value) else f"{text}::{value.type}"


def _expected(value: ir.Expression) -> DataType:
    """Give the type of what is computed where none is written."""
    return DataType("BOOLEAN", any(each.type.nullable for each in value.operands()))


def _parameters(value: ir.Lambda, types: bool) -> str:
    if not types:
        return ", ".join(map(_name, value.parameters))
    kinds = {part.name: part.type for part in value.body.walk() if isinstance(part, ir.ColumnRef)}
    return ", ".join(
        f"{_name(name)} {kinds.get(name, DataType('STRING'))}" for name in value.parameters
    )


def _name(name: str) -> str:
    plain = _NAME.fullmatch(name) and name.upper() not in _WORDS
    return name if plain else f"`{name.replace('`', '``')}`"


def _literal(value: ir.Literal, types: bool) -> str:
    text = _constant(value)
    if not types or _PLAIN.get(type(value.value)) == value.type:
        return text
    return f"{text}::{value.type}"


def _constant(value: ir.Literal) -> str:
    match value.value:
        case None:
            return "NULL"
        case True | False:
            return str(value.value).upper()
        case int():
            return str(value.value)
        case str() if not value.type.is_nested:
            return _quoted(value.value)
    plain = _to_plain(value.value, value.type)
    return _quoted(plain if isinstance(plain, str) else json.dumps(plain))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _to_plain(value: Any, kind: DataType) -> Any:
    """Write a value in what JSON has."""
    if value is None or isinstance(value, bool | int | str):
        return value
    match kind.root:
        case "ARRAY":
            return [_to_plain(each, _part(kind.element)) for each in value]
        case "MAP":
            pairs = value.items() if isinstance(value, dict) else value
            key, content = _part(kind.key), _part(kind.value)
            return [[_to_plain(k, key), _to_plain(v, content)] for k, v in pairs]
        case "ROW":
            return [_to_plain(value[each.name], each.type) for each in kind.fields or ()]
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _from_plain(plain: Any, kind: DataType) -> Any:
    if plain is None:
        return None
    match kind.root:
        case "ARRAY":
            return [_from_plain(each, _part(kind.element)) for each in plain]
        case "MAP":
            key, content = _part(kind.key), _part(kind.value)
            return [(_from_plain(k, key), _from_plain(v, content)) for k, v in plain]
        case "ROW":
            pairs = zip(kind.fields or (), plain, strict=True)
            return {each.name: _from_plain(value, each.type) for each, value in pairs}
        case "BOOLEAN":
            return _of_kind(plain, bool)
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return int(_of_kind(plain, int))
        case "FLOAT" | "DOUBLE":
            return float(plain)
        case "DECIMAL":
            return Decimal(str(plain))
        case "DATE":
            return date.fromisoformat(plain)
        case "TIME":
            return time.fromisoformat(plain)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return plain if isinstance(plain, int) else datetime.fromisoformat(plain)
        case "BINARY" | "VARBINARY" | "BYTES":
            return bytes.fromhex(plain)
    return _of_kind(plain, str)


def _of_kind(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{value!r} is no constant of this type")
    return value


def _part(kind: DataType | None) -> DataType:
    assert kind is not None
    return kind


def from_text(
    text: str, fields: Fields, known: KnowsFunction, udf: FindUdf = lambda name: None
) -> ir.Expression:
    """Read what `to_text` wrote.

    Args:
        fields: the columns that it may refer to.
        known: whether there is a function.
        udf: finds users' functions.

    Raises:
        QueryError: the text is none of these; ``column`` (from 1) is where.
    """
    reader = _Reader(text, dict(zip(fields.names, fields, strict=True)), known, udf)
    result = reader.value()
    reader.end()
    return result


@dataclass
class _Token:
    kind: str
    text: str
    start: int


def _bare(token: _Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


@dataclass(eq=False)
class _Reader:
    """Reads one text from left to right."""

    text: str
    columns: dict[str, Field]
    known: KnowsFunction
    udf: FindUdf
    place: int = 0
    level: int = 0

    def error(self, reason: str, place: int | None = None) -> QueryError:
        column = (self.place if place is None else place) + 1
        return QueryError(f"{reason}, at column {column} of {self.text!r}", line=1, column=column)

    def peek(self) -> _Token:
        match = _TOKEN.match(self.text, self.place)
        if match is None:
            if self.text[self.place :].strip():
                raise self.error("this is no expression")
            return _Token("end", "", len(self.text))
        kind = str(match.lastgroup)
        return _Token(kind, match[kind], match.start(kind))

    def take(self) -> _Token:
        token = self.peek()
        self.place = token.start + len(token.text)
        return token

    def accept(self, *texts: str) -> bool:
        """Take the tokens if all of them are next."""
        before = self.place
        for text in texts:
            if self.take().text != text:
                self.place = before
                return False
        return True

    def expect(self, text: str) -> None:
        token = self.take()
        if token.text != text:
            raise self.error(f"{text!r} is expected, not {token.text!r}", token.start)

    def end(self) -> None:
        token = self.peek()
        if token.kind != "end":
            raise self.error(f"{token.text!r} is more than an expression", token.start)

    def value(self) -> ir.Expression:
        self.level += 1
        if self.level > MOST_LEVELS:
            raise self.error(f"more than {MOST_LEVELS} levels of brackets")
        result = self._value()
        self.level -= 1
        return result

    def _value(self) -> ir.Expression:
        token = self.take()
        match token.kind:
            case "number":
                return self._number(token)
            case "text":
                return self._text(token)
            case "quoted":
                return self._column(_bare(token), token)
            case "mark" if token.text == "(":
                return self._bracket()
            case "name":
                return self._named(token)
        raise self.error(f"a value is expected, not {token.text!r}", token.start)

    def _named(self, token: _Token) -> ir.Expression:
        match token.text:
            case "NULL":
                self.expect("::")
                return ir.Literal(self._type(), None)
            case "TRUE" | "FALSE":
                return self._constant(token.text == "TRUE", token)
            case "CASE":
                return self._case()
            case "CAST" | "TRY_CAST" | "WRAP_CAST":
                return self._cast(_ON_ERROR[token.text])
            case "LAMBDA":
                return self._lambda()
            case "CHAIN" if self.peek().text == "(":
                return self._chain()
            case "UDF":
                return self._udf()
        if self.peek().text == "(":
            return self._call(token)
        return self._column(token.text, token)

    def _column(self, name: str, token: _Token) -> ir.Expression:
        if name not in self.columns:
            known = ", ".join(self.columns) or "none"
            raise self.error(f"no column is called {name!r}; there are {known}", token.start)
        return ir.ColumnRef(self.columns[name].type, name)

    def _number(self, token: _Token) -> ir.Expression:
        whole = re.fullmatch(r"-?\d+", token.text)
        return self._constant(int(token.text) if whole else token.text, token)

    def _text(self, token: _Token) -> ir.Expression:
        return self._constant(token.text[1:-1].replace("''", "'"), token)

    def _constant(self, plain: Any, token: _Token) -> ir.Expression:
        """Read a constant's type, if it is written, and the constant as of it."""
        if not self.accept("::"):
            kind = _PLAIN[type(plain)]
            if kind.root == "INT" and not -(2**31) <= plain < 2**31:
                raise self.error("a whole number beyond INT needs its type", token.start)
            return ir.Literal(kind, plain)
        kind = self._type()
        try:
            nested = kind.is_nested and isinstance(plain, str)
            return ir.Literal(kind, _from_plain(json.loads(plain) if nested else plain, kind))
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            raise self.error(f"{token.text} is no {kind}", token.start) from None

    def _bracket(self) -> ir.Expression:
        if self.accept("NOT"):
            operand = self.value()
            self.expect(")")
            return self._typed("not", (operand,))
        left = self.value()
        for name, words in _TESTS.items():
            if self.accept(*words.split()):
                self.expect(")")
                return self._typed(name, (left,))
        token = self.take()
        if token.text not in _FUNCTIONS:
            raise self.error(f"an operator is expected, not {token.text!r}", token.start)
        right = self.value()
        self.expect(")")
        return self._typed(_FUNCTIONS[token.text], (left, right))

    def _call(self, token: _Token) -> ir.Expression:
        if not self.known(token.text):
            raise self.error(f"no function is called {token.text!r}", token.start)
        return self._typed(token.text, self._arguments())

    def _arguments(self) -> tuple[ir.Expression, ...]:
        self.expect("(")
        if self.accept(")"):
            return ()
        found = [self.value()]
        while self.accept(","):
            found.append(self.value())
        self.expect(")")
        return tuple(found)

    def _typed(self, name: str, arguments: tuple[ir.Expression, ...]) -> ir.Expression:
        plain = DataType("BOOLEAN", any(each.type.nullable for each in arguments))
        return ir.Call(self._type() if self.accept("::") else plain, name, arguments)

    def _case(self) -> ir.Expression:
        branches = []
        while self.accept("WHEN"):
            when = self.value()
            self.expect("THEN")
            branches.append((when, self.value()))
        self.expect("ELSE")
        otherwise = self.value()
        self.expect("END")
        bare = ir.Case(DataType("BOOLEAN"), tuple(branches), otherwise)
        kind = self._type() if self.accept("::") else _expected(bare)
        return ir.Case(kind, tuple(branches), otherwise)

    def _cast(self, on_error: str) -> ir.Expression:
        self.expect("(")
        operand = self.value()
        self.expect("AS")
        kind = self._type()
        self.expect(")")
        return ir.Cast(kind, operand, on_error)

    def _lambda(self) -> ir.Expression:
        self.expect("(")
        parameters: dict[str, Field] = {}
        while not self.accept("->"):
            if parameters:
                self.expect(",")
            token = self.take()
            if token.kind not in ("name", "quoted"):
                raise self.error("a parameter's name is expected", token.start)
            name = _bare(token)
            parameters[name] = Field(name, self._type())
        before, self.columns = self.columns, {**self.columns, **parameters}
        body = self.value()
        self.columns = before
        self.expect(")")
        return ir.Lambda(body.type, tuple(parameters), body)

    def _chain(self) -> ir.Expression:
        self.expect("(")
        first = self.value()
        links: list[ir.Link] = []
        while self.accept(","):
            token = self.take()
            if not self.known(token.text):
                raise self.error(f"no function is called {token.text!r}", token.start)
            self.expect("(")
            left = links[-1].type if links else first.type
            if self.accept("AS"):
                left = self._type()
                self.expect(",")
            operand = self.value()
            self.expect(")")
            call = self._typed(token.text, (ir.ColumnRef(left, ""), operand))
            links.append(ir.Link(token.text, call.type, left, operand))
        self.expect(")")
        if not links:
            raise self.error("a chain has a step at least")
        return ir.Chain(links[-1].type, first, tuple(links))

    def _udf(self) -> ir.Expression:
        token = self.take()
        name = _bare(token)
        found = self.udf(name)
        if found is None:
            raise self.error(f"no function {name!r} is registered", token.start)
        arguments = self._arguments()
        plain = DataType("BOOLEAN", any(each.type.nullable for each in arguments))
        return ir.UdfCall(self._type() if self.accept("::") else plain, found, arguments)

    def _type(self) -> DataType:
        """Read a type: a name, what is in its brackets, and NOT NULL."""
        start = self.peek().start
        root = self.take().text.upper()
        if root == "INTERVAL":
            return self._span()
        opening, closing = ("<", ">") if root in ("ARRAY", "MAP", "ROW") else ("(", ")")
        if self.peek().text == opening:
            self._skip(opening, closing)
        if self.accept("NOT"):
            self.expect("NULL")
        try:
            return DataType.parse(self.text[start : self.place])
        except PkrayError as error:
            raise self.error(str(error), start) from None

    def _span(self) -> DataType:
        fields = [self.take().text.upper()]
        while self.accept("TO"):
            fields.append(self.take().text.upper())
        if " TO ".join(fields) not in SPANS:
            raise self.error(f"INTERVAL {' TO '.join(fields)} is no type")
        nullable = not self.accept("NOT")
        if not nullable:
            self.expect("NULL")
        return interval_type(fields, nullable=nullable)

    def _skip(self, opening: str, closing: str) -> None:
        depth = 0
        while True:
            token = self.take()
            if token.kind == "end":
                raise self.error(f"{closing!r} is missing", token.start)
            depth += 1 if token.text == opening else 0
            if token.text in (closing, "<>") and opening != token.text:
                depth -= 1
            if depth == 0:
                return
