"""What a compaction came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from pkray.format.data_file import DataFileMeta
from pkray.lsm.levels import Vectors


@dataclass
class CompactionResult:
    """Files taken out, files put in their place, changelog files, and rows replaced elsewhere."""

    before: list[DataFileMeta] = field(default_factory=list)
    after: list[DataFileMeta] = field(default_factory=list)
    changelog: list[DataFileMeta] = field(default_factory=list)
    marked: Vectors = field(default_factory=dict)
