"""Name node types and their attributes in plan files."""

import re
from dataclasses import Field as DataclassField
from dataclasses import fields as dataclass_fields
from functools import cache
from typing import Any

from pkray.relational.plan.nodes import IF_SET, NODES, Node, Pairing

PLAN_VERSION = 1
"""Of the form of the files; a newer one is refused."""
NODE_VERSION = 1
"""Of each node type's attributes; it stands in the type's name: ``join_1``."""
INPUTS = ("input", "left", "right")
"""The attributes that are edges."""


def type_name(kind: type[Node]) -> str:
    """Name a node type as plans do: ``set_operation_1``."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    return f"{snake.replace('top_n', 'topn')}_{NODE_VERSION}"


@cache
def node_types() -> dict[str, type[Node]]:
    """List the node types by their names in plans."""
    return {type_name(each): each for each in NODES}


def own_fields(kind: type[Node]) -> tuple[DataclassField[Any], ...]:
    return tuple(each for each in dataclass_fields(kind) if each.name not in INPUTS)


def is_optional(attribute: DataclassField[Any]) -> bool:
    """Whether a plan says an attribute only where it is set."""
    return bool(attribute.metadata.get(IF_SET))


def camel_case(name: str) -> str:
    """Write a name in camel case, as JSON has it."""
    head, *rest = name.split("_")
    return head + "".join(each.capitalize() for each in rest)


def entry_name(kind: type[Node], name: str) -> str:
    """Name a node's attribute as plans do: of a join, ``kind`` is its ``joinType``."""
    is_join = issubclass(kind, Pairing) and name == "kind"
    return "joinType" if is_join else camel_case(name)
