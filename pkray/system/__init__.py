"""System tables: what a table holds of itself, as Arrow."""

from pkray.system.tables import TABLES as SYSTEM_TABLES
from pkray.system.tables import SystemTables, check_system_name

__all__ = ["SYSTEM_TABLES", "SystemTables", "check_system_name"]
