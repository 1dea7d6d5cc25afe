"""System tables: what a table holds of itself, as Arrow."""

from pkray.system.tables import SystemTables

__all__ = ["SystemTables"]
