"""Settings of a service: which warehouse it serves, on which cluster, within which bounds.

A setting has one name. In a TOML file it is a key, ``pool_workers = 4``; in the environment it is a
variable of that name, ``PKRAY_POOL_WORKERS=4``, which counts where both are given.
``PKRAY_SETTINGS`` names the file. Secrets are in files of their own, which settings that end in
``_file`` name.
"""

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pkray.errors import OptionError
from pkray.options.values import BOOLEAN, HTTP_URL, POSITIVE_SIZE, STRING, Kind, integer
from pkray.options.values import size as sized
from pkray.storage.secrets import Secret, may_hold_secret, shown_key

DEFAULT_WAREHOUSE = "./warehouse"
PREFIX = "PKRAY_"
FILE = "PKRAY_SETTINGS"
"""The variable that names the file of settings."""
OTHERS = {
    FILE: "The file of settings, in TOML.",
    "PKRAY_LOG_FORMAT": "The form of logs: text, or json for lines of JSON.",
    "PKRAY_TRACING": "Where spans go: off, or otlp for OpenTelemetry's collector.",
    "PKRAY_JAVA_RUNTIME": "Set by pkray for the Java that it brings along; nobody else sets it.",
}
"""Variables that are no settings."""
_OF_TESTS = "PKRAY_TEST_"
_MOST_SECRET_BYTES = 1 << 16
"""More is no key: the file is another one."""
_SHOWN = ("boolean", "number", "integer", "size")
"""Kinds whose wrong values are shown: in place of a text there may be a secret."""


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number < 0:
        raise ValueError(text)
    return number


def _endpoint(text: str) -> str:
    if may_hold_secret(text) or "@" in text:
        raise ValueError(text)
    return str(HTTP_URL.parse(text))


ENDPOINT = Kind("URL", _endpoint, HTTP_URL.allowed)
NUMBER = Kind("number", _number, "a number of at least 0")
COUNT = integer(1)


@dataclass(frozen=True)
class Setting:
    """One thing that can be set.

    Args:
        name: in the file; `variable` in the environment.
        of: who takes it: the command (``client``), the runtime on Ray (``ray``), that or the
            embedded one (``runtime``), the object store, or each process of a node by itself,
            which reads its environment and no file.
        default: as people write it; None: nothing, or as the meaning says.
    """

    name: str
    kind: Kind
    default: str | None
    meaning: str
    of: Literal["client", "ray", "runtime", "storage", "process"]

    @property
    def variable(self) -> str:
        """Name it in the environment."""
        return PREFIX + self.name.upper()

    @property
    def is_secret(self) -> bool:
        """Whether it names a file that holds a secret."""
        return self.name.endswith("_file")

    @property
    def option(self) -> str:
        """Name it as the runtime or the store does."""
        return self.name.removeprefix("storage_").removesuffix("_file")


SETTINGS = (
    Setting(
        "warehouse", STRING, DEFAULT_WAREHOUSE, "A folder, or an object store's URL.", "client"
    ),
    Setting(
        "ray",
        STRING,
        None,
        "The Ray cluster, host:port, or auto: the one that runs on this machine.",
        "client",
    ),
    Setting(
        "pool_workers",
        COUNT,
        None,
        "Processes that share the tables; default one a processor of the cluster.",
        "ray",
    ),
    Setting(
        "worker_memory",
        POSITIVE_SIZE,
        None,
        "What rows may take in each of these; default its share of half of the node's memory.",
        "ray",
    ),
    Setting("owner_cpus", NUMBER, "0", "Processors that each of these reserves in Ray.", "ray"),
    Setting(
        "owners",
        COUNT,
        None,
        "Owners a table; default one a bucket, at most one a processor.",
        "runtime",
    ),
    Setting(
        "local_directory",
        STRING,
        None,
        "The nodes' folder for lookup caches and spooled rows; default below TMPDIR.",
        "runtime",
    ),
    Setting(
        "writer_lease",
        NUMBER,
        "30",
        "Seconds for which latest shows rows of a writer that is gone.",
        "runtime",
    ),
    Setting(
        "call_timeout",
        NUMBER,
        "60",
        "Seconds that a call may take without progress, before whoever is asked is replaced.",
        "runtime",
    ),
    Setting(
        "lookup_timeout",
        NUMBER,
        "10",
        "Seconds that a lookup may take without progress.",
        "runtime",
    ),
    Setting(
        "metadata_cache",
        sized("64 kb"),
        "64 mb",
        "Decoded manifests that each process keeps; in the environment of each node.",
        "process",
    ),
    Setting("storage_endpoint", ENDPOINT, None, "The object store's endpoint.", "storage"),
    Setting("storage_region", STRING, None, "The region of the bucket.", "storage"),
    Setting("storage_account_name", STRING, None, "The account, on Azure.", "storage"),
    Setting("storage_allow_http", BOOLEAN, None, "Whether to do without TLS.", "storage"),
    Setting(
        "storage_virtual_hosted_style_request",
        BOOLEAN,
        None,
        "Whether the bucket is part of the host's name.",
        "storage",
    ),
    Setting(
        "storage_retry_timeout",
        STRING,
        "30s",
        "For how long a request may go without an answer.",
        "storage",
    ),
    Setting("storage_max_retries", integer(0), "10", "How often it is repeated.", "storage"),
    Setting("storage_access_key_id_file", STRING, None, "Holds the id of a key of S3.", "storage"),
    Setting("storage_secret_access_key_file", STRING, None, "Holds the key of S3.", "storage"),
    Setting("storage_session_token_file", STRING, None, "Holds S3's session token.", "storage"),
    Setting("storage_account_key_file", STRING, None, "Holds the account's key.", "storage"),
    Setting(
        "storage_service_account_key_file",
        STRING,
        None,
        "Holds the key of Google's service account, in JSON.",
        "storage",
    ),
)
_BY_NAME = {each.name: each for each in SETTINGS}


@dataclass(frozen=True)
class Given:
    """Holds what a setting is, and where that was said: a file, or a variable."""

    value: Any
    source: str


class Settings:
    """Reads what was set.

    Args:
        given: by the names of settings; secrets are wrapped.
    """

    def __init__(self, given: Mapping[str, Given]) -> None:
        self.given = dict(given)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Read the environment, and the file that it names; empty variables are as none.

        Raises:
            OptionError: an unknown name, a value that the setting does not take, or a file that
                cannot be read; the message names the setting and where it stands.
        """
        variables = {
            name: text
            for name, text in environment.items()
            if name.startswith(PREFIX) and not name.startswith(_OF_TESTS) and text
        }
        given = _of_file(variables[FILE]) if FILE in variables else {}
        for variable, text in variables.items():
            if variable not in OTHERS:
                name = variable.removeprefix(PREFIX).lower()
                given[name] = _given(name, text, f"the environment's {variable}")
        return cls(given)

    def __getitem__(self, name: str) -> Any:
        """Give the value of a setting; None where nothing was set."""
        return self.given[name].value if name in self.given else None

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={each.value!r}" for name, each in sorted(self.given.items()))
        return f"Settings({said})"

    def connection(self, warehouse: str | None = None, ray: str | None = None) -> dict[str, Any]:
        """Give the arguments of `connect`.

        Args:
            warehouse: instead of what was set.
            ray: the cluster's address; without one tables are served by this process.
        """
        named = warehouse or self["warehouse"] or DEFAULT_WAREHOUSE
        store = self.storage_options() if "://" in named else {}
        runtime = self.runtime_options(ray is not None)
        if ray is None:
            return {"warehouse": named, "runtime_options": runtime, **store}
        options = {**runtime, "address": ray}
        return {"warehouse": named, "runtime": "ray", "runtime_options": options, **store}

    def storage_options(self) -> dict[str, Any]:
        """Give what was set of the object store, as `connect` takes it, with its secrets."""
        return {
            option: value.reveal() if isinstance(value, Secret) else value
            for option, value in self._options("storage").items()
        }

    def runtime_options(self, on_ray: bool) -> dict[str, Any]:
        """Give what was set of the runtime, as `connect` takes it."""
        return self._options("runtime") | (self._options("ray") if on_ray else {})

    def _options(self, of: str) -> dict[str, Any]:
        taken = ((_BY_NAME[name], each.value) for name, each in self.given.items())
        return {setting.option: value for setting, value in taken if setting.of == of}


def _of_file(path: str) -> dict[str, Given]:
    try:
        values = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OptionError(
            f"the file of settings {path!r}, which {FILE} names, cannot be read ({reason}): it is "
            "to be TOML, a line a setting, such as pool_workers = 4",
            key=FILE,
            value=path,
        ) from error
    return {
        name: _given(name, _text(value), f"the file {path!r}") for name, value in values.items()
    }


def _text(value: Any) -> str:
    """Write a value of TOML as it would stand in the environment."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _given(name: str, text: str, source: str) -> Given:
    setting = _BY_NAME.get(name)
    if setting is None:
        known = [each.name for each in SETTINGS]
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(known)}"
        raise OptionError(
            f"there is no setting {shown_key(name)}, which {source} sets: {hint}", key=name
        )
    if setting.of == "process" and not source.endswith(setting.variable):
        raise OptionError(
            f"setting {name} cannot stand in {source}: each process of a node reads it by itself; "
            f"set {setting.variable} in the environment of all nodes",
            key=name,
        )
    try:
        value = setting.kind.parse(text)
    except ValueError:
        value = None
    if value is None or value == "":
        shown = f" be {text!r}" if setting.kind.name in _SHOWN else ""
        raise OptionError(
            f"setting {name}, in {source}, cannot{shown or ' be this'}: give "
            f"{setting.kind.allowed}",
            key=name,
        ) from None
    if setting.is_secret:
        value = _secret(setting, value, source)
    elif setting.of == "storage" and setting.kind.name == "integer":
        value = text
    return Given(value, source)


def _secret(setting: Setting, path: str, source: str) -> Secret:
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST_SECRET_BYTES + 1)
    except OSError as error:
        raise OptionError(
            f"setting {setting.name}, in {source}: the file {path!r} cannot be read "
            f"({error.strerror}): give this user the right, or name another file",
            key=setting.name,
        ) from error
    secret = text.decode("utf-8", "replace").strip()
    if not secret or len(text) > _MOST_SECRET_BYTES:
        what = "empty" if not secret else "too long for a key"
        raise OptionError(
            f"setting {setting.name}, in {source}: the file {path!r} is {what}", key=setting.name
        )
    return Secret(secret)
