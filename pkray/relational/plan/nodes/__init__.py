"""The nodes of a logical plan: what is done to rows.

Each gives `fields`, with distinct names, and has `inputs`. Nodes are frozen and compare by content.
Only `Filter`, `Project`, `Values` and the `condition` of joins hold expressions; all else names
columns of its inputs. A class says all that is true of its kind, as `plan.node` asks for it; a new
kind is a class in one of these modules, and stands in `NODES`.
"""

from pkray.relational.plan.node import IF_SET, Node
from pkray.relational.plan.nodes.changes import ROW_KEY, Exchange, Normalize, RowKey, Sink, Unique
from pkray.relational.plan.nodes.groups import Aggregate, Distinct
from pkray.relational.plan.nodes.joins import IntervalJoin, Join, JoinKind, Pairing, TemporalJoin
from pkray.relational.plan.nodes.orders import Deduplicate, Limit, Over, Sort, TopN
from pkray.relational.plan.nodes.reading import Scan, Values
from pkray.relational.plan.nodes.rows import (
    BIGINT,
    Calc,
    Expand,
    Filter,
    Hint,
    Project,
    Unnest,
    WatermarkAssign,
)
from pkray.relational.plan.nodes.sets import SetKind, SetOperation
from pkray.relational.plan.nodes.windows import Slices, Window, WindowKind

NODES: tuple[type[Node], ...] = (
    *(Scan, Values, Filter, Project, Calc, Expand, Aggregate, Distinct, Join, IntervalJoin),
    *(TemporalJoin, Window, Over, TopN, Deduplicate, SetOperation, Sort, Limit, Unnest, Hint),
    *(WatermarkAssign, Normalize, RowKey, Unique, Exchange, Sink),
)
"""All kinds of nodes."""

__all__ = [
    "BIGINT",
    "IF_SET",
    "NODES",
    "ROW_KEY",
    "Aggregate",
    "Calc",
    "Deduplicate",
    "Distinct",
    "Exchange",
    "Expand",
    "Filter",
    "Hint",
    "IntervalJoin",
    "Join",
    "JoinKind",
    "Limit",
    "Node",
    "Normalize",
    "Over",
    "Pairing",
    "Project",
    "RowKey",
    "Scan",
    "SetKind",
    "SetOperation",
    "Sink",
    "Slices",
    "Sort",
    "TemporalJoin",
    "TopN",
    "Unique",
    "Unnest",
    "Values",
    "WatermarkAssign",
    "Window",
    "WindowKind",
]
