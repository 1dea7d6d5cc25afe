"""What becomes of the states of a plan when another one takes its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class NodeChange:
    """What becomes of one operator with state.

    Attributes:
        id: in the newer plan; of a dropped one, in the older plan.
        fate: ``kept`` (its state goes on), ``warmed up`` (its state is computed from the history
            of the sources) or ``dropped``.
        old_id: of ``kept``, in the older plan.
        differs: of ``warmed up``, which entries differ from the operator of its type in the older
            plan; empty where that has none.
    """

    id: int
    description: str
    fate: str
    old_id: int | None = None
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanDiff:
    """Say what becomes of each operator with state."""

    nodes: tuple[NodeChange, ...]

    @property
    def is_same(self) -> bool:
        """Whether every state goes on and none is dropped."""
        return all(each.fate == "kept" for each in self.nodes)

    def to_dict(self) -> dict[str, Any]:
        """Give the same as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = []
        for each in self.nodes:
            differs = f": {', '.join(each.differs)} differ" if each.differs else ""
            lines.append(f"{each.fate:<9} {each.id:>4} {each.description}{differs}")
        return "\n".join(lines) or "no operator keeps state"


_INCIDENTAL = ("id", "state", "description", "digest", "inputProperties")


def diff_of(old: Mapping[str, Any], new: Mapping[str, Any]) -> PlanDiff:
    """Compare two plans, as JSON has them."""
    before = [node for node in old["nodes"] if node.get("state")]
    left = {node["id"]: node for node in before}
    changes = []
    for node in (each for each in new["nodes"] if each.get("state")):
        same = next((o for o in left.values() if o.get("digest") == node.get("digest")), None)
        if same is not None:
            del left[same["id"]]
            changes.append(NodeChange(node["id"], node["description"], "kept", same["id"]))
        else:
            differs = _differs(node, [o for o in before if o["type"] == node["type"]])
            changes.append(
                NodeChange(node["id"], node["description"], "warmed up", differs=differs)
            )
    dropped = [NodeChange(each["id"], each["description"], "dropped") for each in left.values()]
    return PlanDiff((*changes, *dropped))


def _differs(node: Mapping[str, Any], others: list[Any]) -> tuple[str, ...]:
    """List the entries in which a node differs from the most similar of others."""
    lists = [
        tuple(
            key
            for key in sorted({*node, *other})
            if key not in _INCIDENTAL and node.get(key) != other.get(key)
        )
        or ("inputs",)
        for other in others
    ]
    return min(lists, key=len, default=())
