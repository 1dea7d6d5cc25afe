"""Gives commands what they share: the warehouse they work in, and how they print."""

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

from pkray.api.catalog import Catalog, connect
from pkray.cli import arguments
from pkray.cli.arguments import Json, Place, Ray, Storage, Warehouse
from pkray.service.settings import Settings

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def on_warehouse(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function whose first parameter is an open `Catalog`.

    It takes --warehouse, --storage and --json besides what the function declares; a parameter
    ``as_json: bool`` says the last. What these do not say, `Settings` do.
    """
    return _command(command, with_ray=False)


def on_service(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command as `on_warehouse` does, with --ray."""
    return _command(command, with_ray=True)


def on_named_service(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command as `on_service` does, whose first argument may be the warehouse."""
    return _command(command, with_ray=True, leading=True)


def on_named_service_or_file(
    instead: Callable[..., None],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command as `on_named_service` does, whose first argument may be a file, too.

    Args:
        instead: is called with the file, and with what the command declares.
    """
    return lambda command: _command(command, with_ray=True, leading=True, instead=instead)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command as `on_service` does, on the Ray cluster that runs where --ray names none."""
    return _command(command, with_ray=True, cluster="auto")


def on_named_cluster(cluster: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command as `on_cluster` does, whose first argument may be the warehouse.

    Args:
        cluster: where --ray names none.
    """
    return lambda command: _command(command, with_ray=True, cluster=cluster, leading=True)


def _command(
    command: Callable[..., None],
    *,
    with_ray: bool,
    cluster: str | None = None,
    leading: bool = False,
    instead: Callable[..., None] | None = None,
) -> Callable[..., None]:
    @functools.wraps(command)
    def run(**given: Any) -> None:
        named, place = given.pop("warehouse"), given.pop("place", None)
        if instead is not None and place is not None and Path(place).is_file():
            own = inspect.signature(instead).parameters
            instead(Path(place), **{key: given[key] for key in given if key in own})
            return
        settings = Settings.read(os.environ)
        warehouse = place or named
        address = (given.pop("ray") or settings["ray"] or cluster) if with_ray else None
        options = settings.connection(warehouse, address)
        options |= arguments.pairs(given.pop("storage"), "--storage", secret=True)
        with connect(**options) as catalog:
            command(catalog, **given)

    hints = get_type_hints(command, include_extras=True)
    first, *own = inspect.signature(command).parameters.values()
    assert hints[first.name] is Catalog, command
    shared: dict[str, tuple[Any, Any]] = {
        **({"place": (Place, None)} if leading else {}),
        "warehouse": (Warehouse, None),
        "storage": (Storage, None),
        **({"ray": (Ray, None)} if with_ray else {}),
        "as_json": (Json, False),
    }
    parameters = [
        each.replace(annotation=hints[each.name], kind=_KEYWORD)
        for each in own
        if each.name != "as_json"
    ]
    parameters += [
        inspect.Parameter(name, _KEYWORD, annotation=kind, default=default)
        for name, (kind, default) in shared.items()
    ]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by typer
    return run
