"""The files that a snapshot holds, added and deleted."""

from pkray.metadata.live import changelog_entries, delta_entries, live_files

__all__ = ["changelog_entries", "delta_entries", "live_files"]
