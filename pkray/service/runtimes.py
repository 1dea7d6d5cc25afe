"""Runtimes by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pkray.errors import OptionError
from pkray.service.local import LocalRuntime
from pkray.service.runtime import Runtime


def open_runtime(name: str, options: Mapping[str, Any]) -> Runtime:
    """The runtime ``local`` or ``ray``.

    Raises:
        OptionError: another name, or an option that it does not take.
    """
    kind: Callable[..., Runtime]
    if name == "local":
        kind = LocalRuntime
    elif name == "ray":
        from pkray.service.ray.runtime import RayRuntime

        kind = RayRuntime
    else:
        raise OptionError(f"runtime {name!r} is unknown: use 'local' or 'ray'", value=name)
    known = inspect.signature(kind).parameters
    for option in options:
        if option not in known:
            raise OptionError(
                f"runtime_options {option!r} is unknown to runtime {name!r}: it takes "
                f"{', '.join(known)}",
                key=option,
            )
    return kind(**options)
