"""Packages whose names are imported when they are asked for: a task's process needs few of them."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def opened_lazily(
    package: str, module_of: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Give a package's ``__getattr__`` and ``__dir__``.

    Args:
        module_of: the module of the package that has each of its names.
    """

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    def names() -> list[str]:
        own = vars(sys.modules[package])
        return sorted({*module_of, *(name for name in own if name.startswith("__"))})

    return get, names
