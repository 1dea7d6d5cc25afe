"""Reads plans from JSON.

What a file holds is checked before anything is made of it, and all faults are told at once, each
with the JSON pointer to its place.
"""

import itertools
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from enum import StrEnum
from typing import Any

from pkray.errors import PkrayError, PlanError
from pkray.relational.plan.describe import row_type
from pkray.relational.plan.expressions import TRUE, Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.json import names as json_names
from pkray.relational.plan.json.writer import derived_entries, digest_of, modes_of, shuffle_of
from pkray.relational.plan.nodes import Node, Pairing, Scan, Sink
from pkray.relational.plan.source import Source
from pkray.relational.plan.text import FindUdf, KnowsFunction, from_text
from pkray.scan.moment import Moment
from pkray.schema.types import DataType

MOST_NODES = 10_000
"""Most nodes of a plan: so that a crafted file cannot fill memory with them."""

MOST_CHOICES = 6
"""Most tables of one plan for each of which both changelog modes are tried."""
_DURATION = re.compile(r"(0|[1-9]\d{0,17}) (ms|s|min|h|d)")
_COMMON = ("id", "type", "state", "inputProperties", "outputType", "description", "digest")
_INFORMATION = ("leftUpsertKeys", "rightUpsertKeys")
_MOMENTS = ("snapshot_id", "tag", "timestamp")
_MISSING: Any = object()
_SINK = json_names.type_name(Sink)


@dataclass(frozen=True)
class PlanNames:
    """Finds what a plan names.

    Attributes:
        source: a table by its name, the options it is read with and the moment that the query
            names; raises PkrayError.
        udf: a user's function by its name; None where there is none.
        function: whether there is a function of a canonical name.
    """

    source: Callable[[str, Mapping[str, str], Moment], Source]
    udf: FindUdf
    function: KnowsFunction


def from_json(document: Any, names: PlanNames) -> tuple[Node, ...]:
    """Make the plans of what a file holds: one that ends in a result, or several in tables.

    Args:
        names: finds the tables and functions that the plan names.

    Raises:
        PlanError: ``faults`` lists each fault with its JSON pointer.
    """
    return _Reader(document, names).read()


class _Reader:
    """Reads one document, and collects what is wrong with it."""

    def __init__(self, document: Any, names: PlanNames) -> None:
        self.document = document
        self.names = names
        self.faults: list[tuple[str, str]] = []

    def read(self) -> tuple[Node, ...]:
        roots = self._read()
        if self.faults or roots is None:
            lines = "".join(f"\n  {place or '/'}: {reason}" for place, reason in self.faults)
            raise PlanError(f"the plan cannot be loaded:{lines}", faults=tuple(self.faults))
        return roots

    def fault(self, pointer: str, reason: str) -> Any:
        """Note a fault, and give None in the place of what cannot be read."""
        self.faults.append((pointer, reason))

    def _read(self) -> tuple[Node, ...] | None:
        document = self.document
        if not isinstance(document, dict):
            return self.fault("", "a plan is a JSON object with nodes and edges")
        for key in ("pkrayVersion", "planVersion", "dialect", "nodes", "edges"):
            if key not in document:
                self.fault("", f"{key!r} is missing")
        for key in set(document) - {"pkrayVersion", "planVersion", "dialect", "nodes", "edges"}:
            self.fault(f"/{_escape(key)}", "no such entry in a plan: take it out")
        self._check_version(document.get("planVersion", json_names.PLAN_VERSION))
        if document.get("dialect", "spark") not in ("spark", "flink"):
            self.fault("/dialect", f"{document['dialect']!r} is none of spark, flink")
        written, edges = document.get("nodes"), document.get("edges")
        for key, part in (("nodes", written), ("edges", edges)):
            if key in document and not isinstance(part, list):
                self.fault(f"/{key}", "must be a list")
        if self.faults or not isinstance(written, list) or not isinstance(edges, list):
            return None
        if not 0 < len(written) <= MOST_NODES:
            return self.fault(
                "/nodes", f"a plan has 1 to {MOST_NODES} nodes, this one {len(written)}"
            )
        return self._graph(written, edges)

    def _check_version(self, version: Any) -> None:
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            self.fault("/planVersion", f"{version!r} is no version: it is a number from 1")
        elif version > json_names.PLAN_VERSION:
            self.fault(
                "/planVersion",
                f"{version} is newer than {json_names.PLAN_VERSION}, the newest that this pkray "
                "reads: install a newer pkray",
            )

    def _graph(self, written: list[Any], edges: list[Any]) -> tuple[Node, ...] | None:
        places = self._places(written)
        inputs = self._inputs(edges, places)
        if any(not place.endswith("/ttl") for place, _ in self.faults):
            return None  # there is no graph of which more could be said
        order = self._order(places, inputs)
        if order is None:
            return None
        built: dict[int, Node] = {}
        for number in order:
            index = places[number]
            below = [built.get(each) for each in inputs[number]]
            node = self._node(written[index], f"/nodes/{index}", below)
            if node is not None:
                built[number] = node
        if len(built) == len(places):
            self._check_derived(written, edges, places, built)
        taken = {each for numbers in inputs.values() for each in numbers}
        roots = [number for number in places if number not in taken]
        sinks = [number for number in roots if written[places[number]]["type"] == _SINK]
        if len(roots) > 1 and sinks != roots:
            said = f"a plan ends in one node or in tables, this one in the nodes {sorted(roots)}"
            return self.fault("/edges", said)
        return tuple(built[number] for number in roots if number in built)

    def _places(self, written: list[Any]) -> dict[int, int]:
        places: dict[int, int] = {}
        for index, each in enumerate(written):
            pointer = f"/nodes/{index}"
            if not isinstance(each, dict):
                self.fault(pointer, "a node is a JSON object")
                continue
            number = each.get("id")
            if not isinstance(number, int) or isinstance(number, bool):
                self.fault(f"{pointer}/id", f"{number!r} is no id: it is a whole number")
            elif number in places:
                self.fault(f"{pointer}/id", f"{number} is the id of another node too")
            else:
                places[number] = index
            kind = each.get("type")
            if not isinstance(kind, str) or kind not in json_names.node_types():
                self.fault(f"{pointer}/type", f"no node type is called {each.get('type')!r}")
            self._check_durations(each.get("state"), f"{pointer}/state")
        return places

    def _check_durations(self, written: Any, pointer: str) -> None:
        """Of every node, also of one whose inputs have faults."""
        for index, state in enumerate(written if isinstance(written, list) else ()):
            ttl = state.get("ttl") if isinstance(state, dict) else ""
            if not isinstance(ttl, str) or not _DURATION.fullmatch(ttl):
                reason = "is no duration: write '3000 ms', '10 s', '5 min', '2 h' or '7 d'"
                self.fault(f"{pointer}/{index}/ttl", f"{ttl!r} {reason}")

    def _inputs(self, edges: list[Any], places: Mapping[int, int]) -> dict[int, list[int]]:
        inputs: dict[int, list[int]] = {number: [] for number in places}
        for index, edge in enumerate(edges):
            pointer = f"/edges/{index}"
            if not isinstance(edge, dict):
                self.fault(pointer, "an edge is a JSON object with source and target")
                continue
            ends = [edge.get(end) for end in ("source", "target")]
            for end, number in zip(("source", "target"), ends, strict=True):
                if not isinstance(number, int) or number not in places:
                    self.fault(f"{pointer}/{end}", f"no node has the id {number!r}")
            for key in set(edge) - {"source", "target", "shuffle", "changelogMode"}:
                self.fault(f"{pointer}/{_escape(key)}", "no such entry in an edge: take it out")
            source, target = ends
            if isinstance(source, int) and isinstance(target, int) and target in inputs:
                inputs[target].append(source)
        return inputs

    def _order(
        self, places: Mapping[int, int], inputs: Mapping[int, list[int]]
    ) -> list[int] | None:
        order: list[int] = []
        waiting = {number: set(each) for number, each in inputs.items()}
        while ready := sorted(number for number, each in waiting.items() if not each):
            order.extend(ready)
            for number in ready:
                del waiting[number]
            for each in waiting.values():
                each.difference_update(ready)
        if waiting:
            return self.fault(
                "/edges", f"the nodes {sorted(waiting)} take each other's rows in a circle"
            )
        return order

    def _node(self, written: dict[str, Any], pointer: str, below: list[Node | None]) -> Node | None:
        kind = json_names.node_types()[written["type"]]
        names = [each.name for each in dataclass_fields(kind) if each.name in json_names.INPUTS]
        if len(below) != len(names):
            return self.fault(
                pointer, f"a {written['type']} takes {len(names)} inputs, not {len(below)}"
            )
        inputs = [each for each in below if each is not None]
        if len(inputs) != len(names):
            return None  # a fault of an input was told
        before = len(self.faults)
        if kind is Scan:
            node = self._scan(written, pointer)
        else:
            node = self._make(kind, dict(zip(names, inputs, strict=True)), written, pointer)
        if node is None or len(self.faults) > before:
            return None
        self._check_node(node, written, pointer)
        return node

    def _make(
        self, kind: type[Node], inputs: dict[str, Node], written: dict[str, Any], pointer: str
    ) -> Node | None:
        before = len(self.faults)
        names = {
            json_names.entry_name(kind, each.name): each for each in json_names.own_fields(kind)
        }
        optional = {name for name, each in names.items() if json_names.is_optional(each)}
        needed = [name for name in names if name in written or name not in optional]
        self._check_entries(written, needed, pointer)
        fields = _fields_of_expressions(kind, inputs, written)
        values: dict[str, Any] = dict(inputs)
        hints = typing.get_type_hints(kind)
        for entry, each in names.items():
            if entry not in written:
                continue
            place, hint = f"{pointer}/{entry}", hints[each.name]
            if each.name == "condition":
                values[each.name] = self._condition(written[entry], place, fields)
            else:
                values[each.name] = self._value(written[entry], hint, place, fields)
        if len(self.faults) > before:
            return None
        try:
            node = kind(**values)
            node.check_lengths()
            _ = node.fields
        except (KeyError, TypeError, ValueError, AssertionError, PkrayError) as error:
            said = f"no column is called {error}" if isinstance(error, KeyError) else str(error)
            return self.fault(pointer, f"does not fit its inputs: {said}")
        self._check_columns(node, pointer)
        return node

    def _check_entries(self, written: dict[str, Any], names: list[str], pointer: str) -> None:
        for key in sorted(set(written) - {*names, *_COMMON, *_INFORMATION}):
            self.fault(f"{pointer}/{_escape(key)}", "no such entry in this node: take it out")
        for key in names:
            if key not in written:
                self.fault(pointer, f"{key!r} is missing")

    def _scan(self, written: dict[str, Any], pointer: str) -> Node | None:
        entries = ("table", "tableColumns", "primaryKey", "columns", "condition", "options")
        self._check_entries(written, [*entries, *(["at"] if "at" in written else [])], pointer)
        options, table, at = written.get("options"), written.get("table"), written.get("at", {})
        texts = isinstance(options, dict) and all(isinstance(v, str) for v in options.values())
        if not isinstance(options, dict) or not texts:
            return self.fault(f"{pointer}/options", "must be an object of texts")
        if not isinstance(at, dict) or not all(each in _MOMENTS for each in at):
            return self.fault(f"{pointer}/at", f"must be an object of {', '.join(_MOMENTS)}")
        if not isinstance(table, str):
            return self.fault(f"{pointer}/table", f"{table!r} is no table's name")
        try:
            source = self.names.source(table, options, Moment.from_arguments(**at))
        except PkrayError as error:
            return self.fault(f"{pointer}/table", str(error))
        given = self._value(written.get("tableColumns"), Fields, f"{pointer}/tableColumns", None)
        if list(source.primary_key) != written.get("primaryKey"):
            said = ", ".join(source.primary_key) or "none"
            self.fault(f"{pointer}/primaryKey", f"the primary key of {table} is {said}")
        place = f"{pointer}/columns"
        columns = self._value(written.get("columns"), tuple[str, ...] | None, place, None)
        for index, name in enumerate(columns or ()):
            if name not in source.fields:
                self.fault(f"{place}/{index}", f"{table} has no column {name!r}")
        if isinstance(given, Fields):
            read = given.names if columns is None else columns
            is_as_made = _made_digest(Scan(source), written) == written.get("digest")
            self._check_table(given, read if is_as_made else given.names, source, pointer)
            columns = columns if read == source.fields.names else read
        place = f"{pointer}/condition"
        condition = self._condition(written.get("condition"), place, source.fields)
        return Scan(source, columns, condition or TRUE, tuple(sorted(options.items())))

    def _check_table(
        self, given: Fields, read: Sequence[str], source: Source, pointer: str
    ) -> None:
        """Check the columns that a plan reads; others of the table may come, change and go."""
        for index, column in enumerate(given):
            if column.name not in read:
                continue
            place = f"{pointer}/tableColumns/{index}"
            if column.name not in source.fields:
                self.fault(place, f"{source.name} has no column {column.name!r} any more")
            elif str(now := source.fields[column.name].type) != str(column.type):  # ids aside
                self.fault(f"{place}/type", f"{column.name} is {now}, not {column.type}")

    def _check_columns(self, node: Node, pointer: str) -> None:
        """Refuse names that are not there, which would fail at the first row."""
        for attribute, names, fields in _named_columns(node):
            for index, name in enumerate(names):
                if name not in fields:
                    said = ", ".join(fields.names)
                    place = f"{pointer}/{json_names.camel_case(attribute)}/{index}"
                    self.fault(place, f"no column {name!r}; there are {said}")

    def _check_node(self, node: Node, written: dict[str, Any], pointer: str) -> None:
        if written.get("outputType", _MISSING) != row_type(node):
            self.fault(f"{pointer}/outputType", f"it is {row_type(node)}")
        self._check_states(node, written.get("state", []), f"{pointer}/state")

    def _check_derived(
        self,
        written: list[Any],
        edges: list[Any],
        places: Mapping[int, int],
        built: Mapping[int, Node],
    ) -> None:
        """Refuse what does not follow from the rest: who reads the file believes it."""
        digests: dict[int, str] = {}
        for number, node in built.items():
            below = [digests[id(each)] for each in node.inputs]
            digests[id(node)] = _digest(node, below, written[places[number]])
            derived = {**derived_entries(node), "digest": digests[id(node)]}
            derived.pop("outputType")
            for key, value in derived.items():
                said = written[places[number]].get(key, _MISSING)
                if said is _MISSING or said != value:
                    self.fault(f"/nodes/{places[number]}/{key}", f"it is {json.dumps(value)}")
        for index, edge in enumerate(edges):
            shuffle = shuffle_of(built[edge["source"]])
            if edge.get("shuffle") != shuffle:
                self.fault(f"/edges/{index}/shuffle", f"it is {json.dumps(shuffle)}")
        self._check_modes(edges, built)

    def _check_modes(self, edges: list[Any], built: Mapping[int, Node]) -> None:
        """Compare with the modes for results that need the rows before updates, or do not."""
        below = {id(each) for node in built.values() for each in node.inputs}
        roots = [node for node in built.values() if id(node) not in below]
        differing: list[list[tuple[int, list[str]]]] = []
        for needed in itertools.product((True, False), repeat=min(len(roots), MOST_CHOICES)):
            before = [*needed, *[True] * (len(roots) - len(needed))]
            modes = modes_of(roots, before)
            expected = [modes[id(built[edge["source"]])].names() for edge in edges]
            differing.append(
                [
                    (index, names)
                    for index, (edge, names) in enumerate(zip(edges, expected, strict=True))
                    if edge.get("changelogMode") != names
                ]
            )
        for index, names in min(differing, key=len):
            self.fault(f"/edges/{index}/changelogMode", f"it is {json.dumps(names)}")

    def _check_states(self, node: Node, written: Any, pointer: str) -> None:
        kept = [each for each in node.states() if each.cleaned_by == "ttl"]
        if not isinstance(written, list) or len(written) != len(kept):
            self.fault(pointer, f"this node has {len(kept)} states with a TTL")
            return
        for index, (state, each) in enumerate(zip(kept, written, strict=True)):
            place = f"{pointer}/{index}"
            if not isinstance(each, dict) or set(each) != {"index", "ttl", "name"}:
                self.fault(place, "a state has index, ttl and name")
                continue
            if each["index"] != index or isinstance(each["index"], bool):
                self.fault(f"{place}/index", f"states are numbered from 0: this is {index}")
            if each["name"] != state.name:
                self.fault(f"{place}/name", f"it is {state.name}")

    def _value(self, written: Any, hint: Any, pointer: str, fields: Fields | None) -> Any:
        """Make a value of the type that an attribute has."""
        origin = typing.get_origin(hint)
        if origin in (typing.Union, types.UnionType):
            return self._optional(written, hint, pointer, fields)
        if origin is tuple:
            return self._tuple(written, typing.get_args(hint), pointer, fields)
        if hint is Expression or (isinstance(hint, type) and issubclass(hint, Expression)):
            return self._expression(written, hint, pointer, fields)
        if hint is DataType:
            return self._type(written, pointer)
        if hint is Fields:
            before = len(self.faults)
            columns = self._tuple(written, (Field, ...), pointer, fields)
            return Fields(columns or ()) if len(self.faults) == before else None
        if hint is Field:
            return self._field(written, pointer)
        if isinstance(hint, type) and issubclass(hint, StrEnum):
            return self._enum(written, hint, pointer)
        if is_dataclass(hint) and isinstance(hint, type):
            return self._dataclass(written, hint, pointer, fields)
        if origin is not None and issubclass(origin, Mapping):
            if isinstance(written, dict) and all(isinstance(v, str) for v in written.values()):
                return written
            return self.fault(pointer, "must be an object of texts")
        return self._scalar(written, hint, pointer)

    def _optional(self, written: Any, hint: Any, pointer: str, fields: Fields | None) -> Any:
        kinds = [each for each in typing.get_args(hint) if each is not type(None)]
        if written is None and type(None) in typing.get_args(hint):
            return None
        if len(kinds) == 1:
            return self._value(written, kinds[0], pointer, fields)
        if isinstance(written, (int, float)) and not isinstance(written, bool):
            return written
        return self.fault(pointer, f"{written!r} is no number")

    def _tuple(
        self, written: Any, kinds: tuple[Any, ...], pointer: str, fields: Fields | None
    ) -> tuple[Any, ...] | None:
        if not isinstance(written, list):
            return self.fault(pointer, "must be a list")
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            kinds = (kinds[0],) * len(written)
        if len(kinds) != len(written):
            return self.fault(pointer, f"must have {len(kinds)} entries, not {len(written)}")
        return tuple(
            self._value(each, kind, f"{pointer}/{index}", fields)
            for index, (each, kind) in enumerate(zip(written, kinds, strict=True))
        )

    def _condition(self, written: Any, pointer: str, fields: Fields | None) -> Expression | None:
        return TRUE if written is None else self._expression(written, Expression, pointer, fields)

    def _expression(
        self, written: Any, hint: type[Expression], pointer: str, fields: Fields | None
    ) -> Expression | None:
        shaped = isinstance(written, dict) and set(written) == {"sql", "type"}
        if not shaped or not all(isinstance(each, str) for each in written.values()):
            return self.fault(pointer, "an expression has sql and type, both texts")
        try:
            expression = from_text(
                written["sql"], fields or Fields(()), self.names.function, self.names.udf
            )
        except PkrayError as error:
            return self.fault(f"{pointer}/sql", str(error))
        if not isinstance(expression, hint):
            return self.fault(f"{pointer}/sql", "must be a constant")
        if str(expression.type) != written["type"]:
            self.fault(f"{pointer}/type", f"it is {expression.type}, not {written['type']}")
        return expression

    def _type(self, written: Any, pointer: str) -> DataType | None:
        try:
            return DataType.parse(written)
        except PkrayError as error:
            return self.fault(pointer, str(error))

    def _field(self, written: Any, pointer: str) -> Field | None:
        shaped = isinstance(written, dict) and {"name", "type"} <= set(written)
        if not shaped or set(written) - {"name", "type", "rowtime"}:
            return self.fault(pointer, "a column has name and type")
        kind = self._type(written["type"], f"{pointer}/type")
        if not isinstance(written["name"], str):
            return self.fault(f"{pointer}/name", f"{written['name']!r} is no name")
        rowtime = written.get("rowtime", False) is True
        return Field(written["name"], kind, rowtime) if kind else None

    def _enum(self, written: Any, hint: type[StrEnum], pointer: str) -> StrEnum | None:
        try:
            return hint(written)
        except ValueError:
            return self.fault(pointer, f"{written!r} is none of {', '.join(hint)}")

    def _dataclass(self, written: Any, hint: type[Any], pointer: str, fields: Fields | None) -> Any:
        parts = {json_names.camel_case(each.name): each.name for each in dataclass_fields(hint)}
        if not isinstance(written, dict) or set(written) != set(parts):
            return self.fault(pointer, f"must be an object with {', '.join(parts)}")
        before, hints = len(self.faults), typing.get_type_hints(hint)
        values = {
            name: self._value(written[key], hints[name], f"{pointer}/{key}", fields)
            for key, name in parts.items()
        }
        return hint(**values) if len(self.faults) == before else None

    def _scalar(self, written: Any, hint: Any, pointer: str) -> Any:
        if hint is Any:  # a function of a user
            found = self.names.udf(written) if isinstance(written, str) else None
            if found is None and written is not None:
                self.fault(pointer, f"no function {written!r} is registered")
            return found
        right = isinstance(written, hint) and (hint is bool or not isinstance(written, bool))
        if not right:
            words = {str: "a text", int: "a whole number", bool: "true or false"}
            return self.fault(pointer, f"{written!r} is not {words.get(hint, hint.__name__)}")
        return written


def _fields_of_expressions(
    kind: type[Node], inputs: dict[str, Node], written: dict[str, Any]
) -> Fields:
    """List the columns that a node's expressions read."""
    if len(inputs) == 1:
        return inputs["input"].fields
    if not inputs:
        return Fields(())
    names = written.get("rightNames")
    right = inputs["right"].fields
    fits = isinstance(names, list) and len(names) == len(right)
    columns = zip(right, names if fits and names else right.names, strict=True)
    return inputs["left"].fields + Fields(
        tuple(Field(str(name), each.type, each.is_rowtime) for each, name in columns)
    )


def _named_columns(node: Node) -> Iterator[tuple[str, Sequence[str], Fields]]:
    """List the columns of an input that a node names, an attribute at a time."""
    if isinstance(node, Pairing):
        yield "left_keys", node.left_keys, node.left.fields
        yield "right_keys", node.right_keys, node.right.fields
        return
    if not node.inputs:
        return
    fields = node.inputs[0].fields
    for attribute in ("keys", "partition_by", "arguments"):
        yield attribute, getattr(node, attribute, ()), fields
    order = getattr(node, "order_by", None) or ()
    by = (order,) if isinstance(order, str) else tuple(key.column for key in order)
    yield "order_by", by, fields
    for attribute in ("aggregates", "calls"):
        calls = getattr(node, attribute, ())
        yield attribute, [name for _, call in calls for name in call.columns()], fields
    time = getattr(node, "time", None)
    yield "time", () if time is None else (time,), fields


def _digest(node: Node, inputs: list[str], written: Mapping[str, Any]) -> str:
    """Compute a node's digest; of a table with the columns that it had as the plan was made."""
    if isinstance(node, Scan) and (then := _made_digest(node, written)) == written.get("digest"):
        return then
    return digest_of(node, inputs)


def _made_digest(scan: Scan, written: Mapping[str, Any]) -> str:
    said = {key: value for key, value in written.items() if key not in _COMMON}
    return digest_of(scan, [], said)


def _escape(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
