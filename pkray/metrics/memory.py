"""Read what memory a process takes, and what its machine has left. Only Linux says so."""

import os
from pathlib import Path

_ROOT = Path("/")


def process_memory(root: Path = _ROOT) -> int | None:
    """Give the bytes of memory that this process takes; None where nothing says so."""
    try:
        pages = int((root / "proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def machine_memory_share(root: Path = _ROOT) -> float | None:
    """Give the share of the machine's memory, or of what its container may take, that is in use and
    cannot be had back; None where nothing says so."""
    shares = [each for each in (_of_container(root), _of_machine(root)) if each is not None]
    return max(shares, default=None)


def _of_container(root: Path) -> float | None:
    folder = root / "sys/fs/cgroup"
    try:
        most = int((folder / "memory.max").read_text())  # "max": it has no limit
        taken = int((folder / "memory.current").read_text())
        kept = _numbers(folder / "memory.stat").get("inactive_file", 0)
    except (OSError, ValueError):
        return None
    return max(taken - kept, 0) / most if most else None


def _of_machine(root: Path) -> float | None:
    try:
        numbers = _numbers(root / "proc/meminfo")
        return 1 - numbers["MemAvailable"] / numbers["MemTotal"]
    except (OSError, ValueError, KeyError, ZeroDivisionError):
        return None


def _numbers(path: Path) -> dict[str, int]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1}
