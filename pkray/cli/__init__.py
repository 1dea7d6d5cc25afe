"""The command line."""

from __future__ import annotations

from pkray.cli.app import main

__all__ = ["main"]
