"""Decide which kinds of changes flow from node to node when a plan runs continuously.

Two passes over the plan. From the bottom up: which kinds of changes a node can give, from those of
its inputs. From the top down: whether those above it need the row before an update beside the row
after it. Where a source gives no rows before updates and they are needed, the plan gets a
`Normalize`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pkray.relational.plan.node import INSERT, Kinds, Node


@dataclass(frozen=True)
class ChangelogMode:
    """Names the changes that a node gives.

    Attributes:
        kinds: of ``I`` (insert), ``U`` (update) and ``D`` (delete).
        before: whether an update brings the row before it.
    """

    kinds: Kinds
    before: bool = False

    @property
    def is_append(self) -> bool:
        """Whether rows are only added."""
        return self.kinds <= INSERT

    def __or__(self, other: ChangelogMode) -> ChangelogMode:
        """Give all that two takers of the same changes need."""
        return ChangelogMode(self.kinds | other.kinds, self.before or other.before)

    def names(self) -> list[str]:
        """List the row kinds: ``I``, ``UB``, ``UA``, ``D``."""
        updates = ["UB", "UA"] if self.before else ["UA"]
        return [
            *(["I"] if "I" in self.kinds else []),
            *(updates if "U" in self.kinds else []),
            *(["D"] if "D" in self.kinds else []),
        ]

    def __str__(self) -> str:
        return f"[{','.join(self.names())}]"


Modes: TypeAlias = Mapping[int, ChangelogMode]


def changelog_modes(plan: Node, *, before: bool) -> Modes:
    """Work out the mode of each node.

    Args:
        before: whether what takes the plan's changes needs the rows before updates.

    Returns:
        a mode for each node, by the node's ``id``.
    """
    modes: dict[int, ChangelogMode] = {}
    kinds: dict[int, Kinds] = {}
    _collect_kinds(plan, kinds)
    _descend(plan, before, kinds, modes)
    return modes


def change_kinds(node: Node) -> Kinds:
    """List the kinds of changes that a node can give: of ``I``, ``U`` and ``D``."""
    return _collect_kinds(node, {})


def _collect_kinds(node: Node, found: dict[int, Kinds]) -> Kinds:
    if id(node) not in found:
        inputs = tuple(_collect_kinds(each, found) for each in node.inputs)
        found[id(node)] = node.kinds_from(inputs)
    return found[id(node)]


def _descend(
    node: Node, before: bool, kinds: Mapping[int, Kinds], modes: dict[int, ChangelogMode]
) -> None:
    known = modes.get(id(node))
    before = before or node.is_numbered()
    mode = ChangelogMode(kinds[id(node)], before or (known is not None and known.before))
    if known == mode:
        return
    modes[id(node)] = mode
    for index, each in enumerate(node.inputs):
        _descend(each, node.needs_before(index, before), kinds, modes)
    below = (modes[id(each)] for each in node.inputs)
    if node.passes_before and any(each.before and "U" in each.kinds for each in below):
        modes[id(node)] = ChangelogMode(mode.kinds, before=True)
