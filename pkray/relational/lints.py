"""Tell people what they should know of a plan before it runs continuously."""

from collections.abc import Iterator

from pkray.relational.functions.function import function
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.expressions import Call
from pkray.relational.plan.node import INSERT, Lint, Node
from pkray.relational.plan.nodes import Filter, Project
from pkray.relational.plan.state import NEVER, kept_states, state_ttls


def lints(node: Node, default_ttl: str = NEVER) -> tuple[Lint, ...]:
    """List the remarks on one node of a physical plan."""
    return (*_unbounded(node, default_ttl), *_undetermined(node), *_inexact(node), *node.remarks())


def _unbounded(node: Node, default_ttl: str) -> Iterator[Lint]:
    ttls = iter(state_ttls(node, default_ttl))
    for state in kept_states(node, default_ttl):
        grows = state.grows_with != "one row" and state.shape != "source"
        if state.cleaned_by == "ttl" and next(ttls) == NEVER and grows:
            yield Lint(
                "unbounded-state",
                f"{state.name} grows with {state.grows_with}: set table.exec.state.ttl or a "
                "STATE_TTL hint if old ones may be forgotten",
            )


def _undetermined(node: Node) -> Iterator[Lint]:
    if change_kinds(node) == INSERT:
        return
    for name in _volatile(node):
        yield Lint(
            "not-determined",
            f"{name}() gives another value when a row is taken back, so that what it gave is not "
            "found again: compute it before the first operator with state, or store it in a table",
        )


def _inexact(node: Node) -> Iterator[Lint]:
    if isinstance(node, Project | Filter) and change_kinds(node.input) == INSERT:
        for name in _volatile(node):
            yield Lint("not-exact", f"{name}() depends on when a row comes, or on chance")


def _volatile(node: Node) -> list[str]:
    """Name the functions of a node that depend on when they are computed, or on chance."""
    parts = (part for value in node.expressions() for part in value.walk())
    names = {part.function for part in parts if isinstance(part, Call)}
    return sorted(name for name in names if not function(name).deterministic)
