"""Writes one file that says how a warehouse is, for somebody who cannot look at it."""

import os
import platform
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from pkray.api.catalog import Catalog
from pkray.arguments.checks import Give
from pkray.arguments.facade import checked
from pkray.arguments.whole_number import whole_number
from pkray.clock import now_millis
from pkray.errors import CorruptFileError, OptionError, PkrayError, StorageError, UnsupportedError
from pkray.inspection import overview, queries, tables
from pkray.inspection.masking import Mask
from pkray.storage.secrets import shown_url
from pkray.version import __version__

_FORMAT = 1
_MOST_THINGS = 1000
"""Tables, and queries, that are described one by one; the first page has all of them."""
_LINES = 500
"""Bounds what is taken of each process's log."""
_MOST_BYTES = 64 << 20
"""Bounds what is read of a part of a file: it may come from anybody."""
_PACKAGES = ("fastavro", "msgspec", "numpy", "obstore", "pyarrow", "pyspark", "ray", "sqlglot")
_ABOUT, _HOME, _CLUSTER, _METRICS = "about.json", "home.json", "cluster.json", "metrics.txt"


class _About(msgspec.Struct):
    """Says what a file is of, and where in it things are."""

    format: int
    made: int
    warehouse: str
    versions: dict[str, str]
    tables: dict[str, str]
    queries: dict[str, str]
    logs: dict[str, str]


_File: TypeAlias = Annotated[str | os.PathLike[str], Give("the path of a file to be written")]


@checked
def diagnose(catalog: Catalog, path: _File, *, lines: int = _LINES) -> Path:
    """Write metrics, plans, layouts, versions, states and the ends of logs to one file.

    It has no rows and no secrets: values of partitions are numbered, and of texts that are quoted
    in messages, in plans and in logs only names are left. What cannot be read is an error in the
    file. `pkray ui FILE` shows it.

    Args:
        path: of the file, a zip; it may not be there yet.
        lines: of the log of each process; 0: none.

    Returns:
        where it is.

    Raises:
        OptionError: something is at the path, or `lines` is below 0.
        StorageError: it cannot be written.
    """
    whole_number("lines", lines, 0)
    target = Path(path)
    if target.exists():
        raise OptionError(f"{target} is there already: give another name", value=str(target))
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with (
            os.fdopen(descriptor, "wb") as raw,
            zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as made,
        ):
            _Writing(catalog, made).write(lines)
        part.replace(target)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return target


class _Writing:
    """Writes the parts of one file."""

    def __init__(self, catalog: Catalog, file: zipfile.ZipFile) -> None:
        self._catalog = catalog
        self._file = file
        self._mask = Mask(catalog.storage_options)

    def write(self, lines: int) -> None:
        names = self._read(self._catalog.list_tables, [])
        running = [each.name for each in self._read(self._catalog.queries, [])]
        described = {each: self._tried(tables.table, each) for each in names[:_MOST_THINGS]}
        self._mask = Mask(self._catalog.storage_options, _names_of(described, running))
        home = self._tried(overview.home)
        for each in (*home.get("queries", ()), *home.get("attention", ())):
            each["failure"] = each["failure"] and self._mask.message(each["failure"])
        self._put(_HOME, self._mask.within({"tables": [], "queries": [], "attention": []} | home))
        self._put(
            _CLUSTER,
            self._mask.within(
                {"placed": [], "memory": {}} | self._tried(overview.cluster) | {"dashboard": None}
            ),
        )
        self._file.writestr(_METRICS, self._mask.text(self._read(self._metrics, "")))
        about = _About(
            format=_FORMAT,
            made=now_millis(),
            warehouse=shown_url(self._catalog.warehouse),
            versions=_versions(),
            tables=self._put_all("tables", ((n, self._table(f)) for n, f in described.items())),
            queries=self._put_all("queries", ((n, self._query(n)) for n in running[:_MOST_THINGS])),
            logs=self._put_all("logs", self._logs(lines)),
        )
        self._put(_ABOUT, self._mask.within(msgspec.to_builtins(about)))

    def _metrics(self) -> str:
        return self._catalog.metrics().to_text()

    def _table(self, found: dict[str, Any]) -> dict[str, Any]:
        """Leave out the values of partitions."""
        numbers: dict[str, str] = {}
        for each in [*found.get("buckets", []), *found.get("partitions", [])]:
            if "partition" in each and each["partition"] != "{}":
                known = numbers.setdefault(each["partition"], f"partition {len(numbers)}")
                each["partition"] = known
        for each in found.get("branches", []):
            if "error" in each:
                each["error"] = self._mask.message(each["error"])
        options = self._mask.options(found.get("options", {}))
        return self._mask.within(found) | {"options": options}

    def _query(self, name: str) -> dict[str, Any]:
        found = self._tried(queries.query, name)
        if "graph" in found:
            for node in found["graph"]["nodes"]:
                node["description"] = self._mask.message(node["description"])
            found["options"] = self._mask.options(found["options"])
            for text in ("failure", "sql"):
                found[text] = found[text] and self._mask.message(str(found[text]))
        return self._mask.within(found)

    def _logs(self, lines: int) -> Iterable[tuple[str, Any]]:
        if lines < 1:
            return
        try:
            texts = self._catalog.service().logs(lines=lines)
        except UnsupportedError:  # this process serves the tables: what it writes is its caller's
            return
        except PkrayError as error:
            texts = {"service": f"no log can be read: {error}"}
        for process, text in texts.items():
            yield process, {"text": self._mask.log(text)}

    def _tried(self, made: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        try:
            return made(self._catalog, *arguments)
        except PkrayError as error:
            return {"error": self._mask.message(str(error))}

    def _read(self, made: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return made()
        except PkrayError:  # the first page says why
            return otherwise

    def _put_all(self, folder: str, things: Iterable[tuple[str, Any]]) -> dict[str, str]:
        """Write things under numbers: a name may be none of a file."""
        places: dict[str, str] = {}
        for name, thing in things:
            places[name] = f"{folder}/{len(places)}.json"
            self._put(places[name], thing)
        return places

    def _put(self, place: str, thing: Any) -> None:
        self._file.writestr(place, msgspec.json.encode(thing))


def _names_of(described: dict[str, dict[str, Any]], running: Iterable[str]) -> set[str]:
    """Gather the names that may stand in texts, with their parts."""
    names = set(running)
    for name, found in described.items():
        names |= {name, *name.split(".", 1), *found.get("options", {})}
        names |= {each["name"] for each in found.get("columns", [])}
    return names


def _versions() -> dict[str, str]:
    found = {"pkray": __version__, "python": platform.python_version(), "system": sys.platform}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found | {"machine": platform.machine(), "processors": str(os.cpu_count())}


class Diagnosis:
    """Reads a file of `diagnose`; parts of it are read when they are asked for."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a file.

        Raises:
            CorruptFileError: it is none, or of a newer pkray.
        """
        self._path = Path(path)
        try:
            self.about = msgspec.json.decode(self._bytes(_ABOUT), type=_About)
        except msgspec.MsgspecError as error:
            raise CorruptFileError(f"{self._path} is no diagnosis: {error}") from None
        if self.about.format > _FORMAT:
            raise CorruptFileError(
                f"{self._path} is of format {self.about.format}, and this pkray reads up to "
                f"{_FORMAT}: read it with pkray {self.about.versions.get('pkray')}"
            )

    def home(self) -> Any:
        """Give the first page."""
        return self._json(_HOME)

    def cluster(self) -> Any:
        """Give the page of the processes."""
        return self._json(_CLUSTER)

    def metrics(self) -> str:
        """Give the metrics as Prometheus reads them."""
        return self._bytes(_METRICS).decode(errors="replace")

    def table(self, name: str) -> Any | None:
        """Give what is said of a table; None: nothing is."""
        return self._json(self.about.tables[name]) if name in self.about.tables else None

    def query(self, name: str) -> Any | None:
        """Give what is said of a query; None: nothing is."""
        return self._json(self.about.queries[name]) if name in self.about.queries else None

    def logs(self) -> dict[str, str]:
        """Give the ends of logs by process."""
        return {name: self._json(place)["text"] for name, place in self.about.logs.items()}

    def _json(self, place: str) -> Any:
        try:
            return msgspec.json.decode(self._bytes(place))
        except msgspec.MsgspecError as error:
            raise CorruptFileError(f"{place} in {self._path} is damaged: {error}") from None

    def _bytes(self, place: str) -> bytes:
        try:
            with zipfile.ZipFile(self._path) as file, file.open(place) as part:
                found = part.read(_MOST_BYTES + 1)
        except (
            OSError,
            KeyError,
            ValueError,
            NotImplementedError,
            RuntimeError,
            zipfile.BadZipFile,
            zlib.error,
        ) as error:
            raise CorruptFileError(
                f"{self._path} is no diagnosis, or damaged: {error}; `pkray diagnose` makes one"
            ) from None
        if len(found) > _MOST_BYTES:
            raise CorruptFileError(f"{place} in {self._path} has more than {_MOST_BYTES:,} bytes")
        return found
