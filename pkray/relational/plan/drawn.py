"""Draws compiled plans for notebooks, with what their operators do."""

from collections.abc import Mapping
from typing import Any

from pkray.drawings import Box, bytes_text, svg_graph


def drawn_document(document: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Draw a compiled plan as a graph.

    Args:
        status: of the query that runs it, or nothing.
    """
    done = {each["id"]: each for each in status.get("nodes", [])}
    busy = status.get("busy", {})
    boxes = [
        Box(
            each["id"],
            [
                f"{each['id']} {each['type'].rpartition('_')[0]}",
                *_did(done.get(each["id"]), each["description"]),
            ],
            each["description"],
            busy.get(str(each["id"])),
        )
        for each in document["nodes"]
    ]
    return svg_graph(boxes, [(each["source"], each["target"]) for each in document["edges"]])


def _did(node: Mapping[str, Any] | None, description: str) -> list[str]:
    """Say what an operator did; of one that does not run what it is to do."""
    if node is None:
        return [description]
    found = [f"{node['rows_in']:,} → {node['rows_out']:,} rows", f"worked {node['seconds']:,.2f} s"]
    if any(node.get("state_rows", {}).values()):
        sizes = (node.get("state_bytes", {}), node.get("state_file_bytes", {}))
        found.append(f"state {bytes_text(sum(size for part in sizes for size in part.values()))}")
    return found
