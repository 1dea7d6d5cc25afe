"""Runtimes by name."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pkray.errors import OptionError
from pkray.extras import require_extra
from pkray.service.local import LocalRuntime
from pkray.service.runtime import Runtime


def open_runtime(
    name: str, options: Mapping[str, Any], storage_options: Iterable[str] = ()
) -> Runtime:
    """Open the runtime ``local`` or ``ray``.

    Args:
        storage_options: those that were given to the store, by name.

    Raises:
        OptionError: another name, an option that it does not take, or one that was given to the
            store.
        MissingExtraError: Ray is not installed.
    """
    kind: Callable[..., Runtime]
    if name == "local":
        kind = LocalRuntime
    elif name == "ray":
        require_extra("ray", "ray", "runtime 'ray'")
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
    for option in storage_options:
        if option in known:
            raise OptionError(
                f"{option!r} is no option of the store but of runtime {name!r}: give it in "
                "runtime_options",
                key=option,
            )
    return kind(**options)
