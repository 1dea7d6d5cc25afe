"""Have the processes of a cluster stand still at a moment, until somebody was lost at it.

Files of one folder say what is waited for, as processes share nothing else: ``armed``, what it is;
``stage``, what the work is at; ``pass-N``, one for each that is let by; ``met``, what it was;
``go``, when who stands still goes on.
"""

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = "PKRAY_TEST_MOMENTS"
"""The environment's name of the folder."""
_STILL_SECONDS = 30
_GLANCE = 0.01


class Moments:
    """The folder of what processes come to."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    @property
    def stage(self) -> str:
        with suppress(OSError):
            return (self._folder / "stage").read_text()
        return ""

    @stage.setter
    def stage(self, name: str) -> None:
        self._publish("stage", name)

    def arm(self, pattern: str, of: str, stages: Sequence[str] | None, passed: int) -> None:
        """Say what is waited for.

        Args:
            of: ends what calls come to, and is in the paths of files that are written.
            stages: in which it counts; None: in any.
            passed: so many are let by.
        """
        self.clear()
        for number in range(passed):
            self._publish(f"pass-{number}", "")
        said = {"pattern": pattern, "of": of, "stages": stages, "passed": passed}
        self._publish("armed", json.dumps(said))

    @property
    def is_awaited(self) -> bool:
        return (self._folder / "armed").exists()

    @property
    def met(self) -> str:
        """What it was; empty before."""
        with suppress(OSError):
            return (self._folder / "met").read_text()
        return ""

    def let_go(self) -> None:
        self._publish("go", "")

    def clear(self) -> None:
        for file in self._folder.glob("*"):
            if file.name != "stage":
                file.unlink(missing_ok=True)

    def come(self, what: str) -> None:
        """Come to something; stand still if it is what is waited for."""
        try:
            armed = json.loads((self._folder / "armed").read_text())
        except OSError:
            return
        if not _is_it(what, armed) or not (
            armed["stages"] is None or self.stage in armed["stages"]
        ):
            return
        for number in range(armed["passed"]):
            with suppress(OSError):
                (self._folder / f"pass-{number}").unlink()
                return
        with suppress(OSError):
            (self._folder / "armed").rename(self._folder / "taken")
            self._publish("met", what)
            deadline = time.monotonic() + _STILL_SECONDS
            while not (self._folder / "go").exists() and time.monotonic() < deadline:
                time.sleep(_GLANCE)

    def _publish(self, name: str, text: str) -> None:
        hidden = self._folder / f".{name}-{os.getpid()}"
        hidden.write_text(text)
        hidden.replace(self._folder / name)


def _is_it(what: str, armed: dict[str, Any]) -> bool:
    if not re.match(armed["pattern"], what):
        return False
    if " of " in what:
        return what.endswith(f" of {armed['of']}")
    if what.startswith(("write", "create")) and "/.queries/" not in what:
        return f"/{armed['of'].replace('.', '.db/')}/" in what
    return True


def install() -> None:
    """Have this process come to moments, if its environment says so."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    from pkray.service.pool.calls import KeeperClient
    from pkray.service.pool.host import PartHost
    from pkray.service.ray.handle import RayHandle
    from pkray.storage.local import LocalStore

    moments = Moments(folder)

    def called(call: Callable[..., Any]) -> Callable[..., Any]:
        def hosted(host: Any, part: Any, number: int, method: Any, *given: Any) -> Any:
            held = host._parts.get(part)
            what = f"{method.name} of {held.table.name if held is not None else part.table}"
            moments.come(f"begin {what}")
            answer = call(host, part, number, method, *given)
            moments.come(f"end {what}")
            return answer

        return hosted

    def asked(call: Callable[..., Any]) -> Callable[..., Any]:
        def once(handle: Any, method: Any, *given: Any, **named: Any) -> Any:
            if method._client is not KeeperClient:
                return call(handle, method, *given, **named)
            moments.come(f"ask keeper/{method.name}")
            answer = call(handle, method, *given, **named)
            moments.come(f"hear keeper/{method.name}")
            return answer

        return once

    def written(kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def put(store: Any, path: str, *given: Any) -> Any:
            full = store.local_path(path)
            moments.come(f"{kind} w/{full.partition('/warehouse/')[2]}")
            return call(store, path, *given)

        return put

    hooked: Any = PartHost
    hooked.call = called(PartHost.call)
    hooked = RayHandle
    hooked.call_once = asked(RayHandle.call_once)
    hooked = LocalStore
    for kind, name in (("write", "write"), ("create", "create"), ("write", "open_output")):
        setattr(hooked, name, written(kind, getattr(LocalStore, name)))
