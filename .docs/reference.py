"""Write the pages of the reference from the code, so that they say what it says.

Each function of `PAGES` gives the text of ``reference/<its name>.md``.
"""

from __future__ import annotations

import ast
import html
import importlib
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from remedies import REMEDIES

import pkray
import pkray.cdc
import pkray.kafka
import pkray.ray_data
import pkray.relational
import pkray.spark
from pkray import errors as pkray_errors
from pkray.cli.commands.table_options import write_default
from pkray.cli.loading import ENTRIES
from pkray.metrics import names as metric_names
from pkray.metrics.metric import Metric
from pkray.options import catalogue, field_catalogue
from pkray.options.option import Option, options_of
from pkray.options.table_options import TableOptions
from pkray.relational.settings import SETTINGS
from pkray.system.tables import TABLES
from tests.manual import all_blocks, pages

PACKAGE = Path(pkray.__file__).parent


def options() -> str:
    """The options of tables, by subject."""
    text = [
        "# Options of tables",
        "`CREATE TABLE … TBLPROPERTIES`, `options=` of `create_table`, `alter.set_options` and "
        "`--option` take them. `pkray options WORD` prints those with a word in them. Keys are "
        "Paimon's, except those that name pkray. An unknown key is refused, with the nearest one.",
    ]
    subjects = [each for each in TableOptions.__mro__ if each.__name__.endswith("Options")]
    known = {each.key: each for each in catalogue()}
    for subject in subjects[1:]:
        listed = [each for each in options_of(subject) if known.pop(each.key, None)]
        if listed:
            title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", subject.__name__.removesuffix("Options"))
            text += [f"## {title}", *map(_option, listed)]
    text += ["## Of one column", *map(_option, field_catalogue())]
    assert not known, known
    return "\n\n".join(text)


def _option(option: Option) -> str:
    default = write_default(option)
    takes = " or ".join(map(str, option.only)) or option.kind.allowed
    also = "".join(f" Also `{alias}`." for alias in option.aliases)
    said = "" if default is None else f", default `{default}`"
    return f"`{option.key}`{said}\n: {_plain(option.doc)}{also} Takes {_plain(takes)}."


def settings() -> str:
    """The settings of queries."""
    text = [
        "# Settings of queries",
        "`SET 'key' = 'value'`, also as `catalog.sql(…)`, changes one for one catalog "
        "object; `SET` lists them, `RESET` takes them back.",
    ]
    for each in SETTINGS.values():
        default = f", default `{each.default}`" if each.default not in (None, "") else ""
        takes = _plain(each.kind.allowed)
        text.append(f"`{each.key}`{default}\n: {_plain(each.about)} Takes {takes}.")
    return "\n\n".join(text)


def functions() -> str:
    """The functions of queries, as SHOW FUNCTIONS lists them."""
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        rows = catalog.sql("SHOW FUNCTIONS").to_pylist()
    text = [
        "# Functions",
        f"{len(rows)} functions, by kind; `pkray sql --functions` and `SHOW FUNCTIONS` list them, "
        "`DESCRIBE FUNCTION name` says what one does. Both dialects have them unless a line says "
        "which. [Python functions](../guides/queries.md) join them by `@udf`.",
    ]
    for kind in sorted({row["kind"] for row in rows}):
        text += [f"## {kind.capitalize()}"]
        text += [
            f"`{row['usage']}`\n: {_plain(row['about'])}" for row in rows if row["kind"] == kind
        ]
    return "\n\n".join(text)


def metrics() -> str:
    """The metrics."""
    text = [
        "# Metrics",
        "`pkray metrics` prints them, `/metrics` of `pkray serve` has them, and "
        "`catalog.metrics()` gives them, under the same names. A fact is read from the "
        "warehouse; the others are kept by each process, which the label `worker` names.",
    ]
    found = [each for each in vars(metric_names).values() if isinstance(each, Metric)]
    for subject, listed in _by(found, lambda metric: metric.name.split("_")[1]):
        rows = (
            f"\n| `{each.name}` | {each.kind}{', fact' if each.is_fact else ''} | "
            f"{', '.join(each.all_labels)} | {_cell(each.help)} |"
            for each in listed
        )
        head = "| metric | kind | labels | meaning |\n|---|---|---|---|"
        text += [f"## {subject.capitalize()}", head + "".join(rows)]
    return "\n\n".join(text)


def errors() -> str:
    """The errors, with what they say."""
    messages, remedies = _messages(), dict(REMEDIES)
    text = [
        "# Errors",
        "Every error of pkray is a `PkrayError`. Its message says what happened, to which thing, "
        "with which value, and what to do; the values are attributes too (`error.values`). What "
        "holds for all of a kind stands here. The messages are those of the code; `…` stands for "
        "a value.",
    ]
    for kind in vars(pkray_errors).values():
        if not (inspect.isclass(kind) and issubclass(kind, pkray_errors.PkrayError)):
            continue
        base = kind.__bases__[0].__name__
        of = "" if base == "Exception" else f" A kind of [{base}](#{base.lower()})."
        text += [
            f"## {kind.__name__}",
            _plain((inspect.getdoc(kind) or "").partition("\n\n")[0]) + of,
            f"**What to do**: {remedies.pop(kind.__name__)}",
        ]
        if found := sorted(messages.get(kind.__name__, ())):
            items = "".join(f"<li>{html.escape(each)}</li>" for each in found)
            said = "1 message" if len(found) == 1 else f"{len(found)} messages"
            text.append(f"<details><summary>{said}</summary><ul>{items}</ul></details>")
    assert not remedies, remedies
    return "\n\n".join(text)


def _messages() -> dict[str, set[str]]:
    """Find what the code says where it makes an error."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name.endswith("Error") and (text := _written(node.args[0])):
                    found.setdefault(name, set()).add(text)
    return found


def _written(node: ast.expr) -> str | None:
    """Give a text that code writes, with … for what it puts in; None where it writes none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [each.value if isinstance(each, ast.Constant) else "…" for each in node.values]
        text = "".join(map(str, parts))
        return text if re.search(r"\w{3}", text) else None
    return None


def command_line() -> str:
    """The commands."""
    text = [
        "# Command line",
        "`pkray --help` lists the commands, and `--help` after one says what it takes. "
        "`PKRAY_WAREHOUSE` or `--warehouse` names the warehouse.",
    ]
    for entry in ENTRIES:
        text += _command(entry.load(), f"pkray {entry.name}")
    return "\n\n".join(text)


def _command(command: Any, name: str) -> Iterator[str]:
    yield f"## `{name}`" if name.count(" ") == 1 else f"### `{name}`"
    yield _plain(inspect.cleandoc(command.help or command.short_help or ""))
    for nested in getattr(command, "commands", {}).values():
        yield from _command(nested, f"{name} {nested.name}")
    if hasattr(command, "commands"):
        return
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    words = [_word(each) for each in arguments]
    yield f"```text\n{' '.join([name, *words, '[OPTIONS]'])}\n```"
    rows = []
    for each in command.params:
        if not getattr(each, "hidden", False):
            options = [*each.opts, *each.secondary_opts]
            named = ", ".join(f"`{name}`" for name in (_word(each),) if each in arguments)
            named = named or ", ".join(f"`{name}`" for name in options)
            required = " Required." if each.required and each not in arguments else ""
            rows.append(f"| {named} | {_cell(getattr(each, 'help', '') or '')}{required} |")
    if rows:
        yield "| takes | meaning |\n|---|---|\n" + "\n".join(rows)


def _word(argument: Any) -> str:
    word = (argument.metavar or argument.name.upper()).strip("[]")
    return word if argument.required else f"[{word}]"


STATES = {
    "Filter, compute": "SELECT id, amount * 2 AS double FROM orders WHERE amount > 10",
    "GROUP BY": "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer",
    "GROUP BY, max or min": "SELECT customer, max(amount) AS most FROM orders GROUP BY customer",
    "DISTINCT": "SELECT DISTINCT customer FROM orders",
    "Join on a table's key": """SELECT o.id, o.amount, s.carrier FROM orders AS o
        JOIN shipments AS s ON o.id = s.id""",
    "Join by another column": """SELECT o.id, p.town FROM orders AS o
        JOIN people AS p ON o.customer = p.name""",
    "Join by time": """SELECT c.id, v.page FROM clicks AS c JOIN visits AS v ON c.id = v.id
        AND c.at BETWEEN v.at - INTERVAL '1' HOUR AND v.at""",
    "Join as of a time": """SELECT c.id, v.page FROM clicks AS c
        LEFT JOIN visits FOR SYSTEM_TIME AS OF c.at AS v ON c.id = v.id""",
    "UNION": "SELECT id FROM orders UNION SELECT id FROM shipments",
    "UNION ALL": "SELECT id FROM orders UNION ALL SELECT id FROM shipments",
    "Top-n": """SELECT * FROM (SELECT id, customer, amount, ROW_NUMBER() OVER (PARTITION BY customer
        ORDER BY amount DESC) AS place FROM orders) WHERE place <= 3""",
    "Deduplicate": """SELECT * FROM (SELECT id, customer, amount, ROW_NUMBER() OVER (
        PARTITION BY customer ORDER BY id) AS place FROM orders) WHERE place = 1""",
    "OVER": "SELECT id, sum(amount) OVER (PARTITION BY customer ORDER BY id) AS s FROM orders",
    "Windows of time": """SELECT window_start, window_end, count(*) AS n FROM TABLE(
        TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end""",
    "Sessions": """SELECT window_start, window_end, count(*) AS n FROM TABLE(
        SESSION(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end""",
    "EXISTS": "SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM people WHERE name = customer)",
}
"""Kinds of queries, and one of each."""


def states() -> str:
    """What operators of continuous queries remember, as plans say it."""
    text = [
        "# What operators remember",
        "A query of each kind, and the states that `explain()` lists. The tables have a key and "
        "complete changelogs; `clicks` and `visits` have a watermark. [When state "
        "grows](../concepts/state.md) says what to do about it.",
    ]
    complete = "TBLPROPERTIES ('primary-key' = 'id', 'changelog-producer' = 'lookup')"
    adds = "TBLPROPERTIES ('primary-key' = 'id', 'merge-engine' = 'first-row', {})"
    adds = adds.format("'changelog-producer' = 'lookup'")
    at = "at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '5' SECOND"
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        for columns in (
            f"orders (id BIGINT, customer STRING NOT NULL, amount BIGINT) {complete}",
            f"shipments (id BIGINT, carrier STRING) {complete}",
            f"people (id BIGINT, name STRING NOT NULL, town STRING) {complete}",
            f"clicks (id BIGINT, {at}) {adds}",
            f"visits (id BIGINT, page STRING, {at}) {adds}",
        ):
            catalog.sql(f"CREATE TABLE {columns}")
        for kind, query in STATES.items():
            plan = str(catalog.sql(query).explain())
            found = re.findall(r"(\w+State): (.*), grows with (.*), (until|ttl)", plan)
            rows = "".join(
                f"\n| `{name}` | {how} | {_cell(why)} | "
                f"{'the watermark has passed' if end == 'until' else 'its TTL, if it has one'} |"
                for name, how, why, end in found
            )
            text += [
                f"## {kind}",
                f"```text\n{inspect.cleandoc(query)}\n```",
                f"| state | kept | grows with | until |\n|---|---|---|---|{rows}"
                if rows
                else "No state.",
            ]
    return "\n\n".join(text)


def system_tables() -> str:
    """The system tables."""
    text = [
        "# System tables",
        '`table.system(name)` gives one as Arrow, `"shop.orders$files"` names one wherever a '
        "table is read, and `pkray system TABLE NAME` prints it. Columns are Paimon's.",
        *(f"`{name}`\n: {_first(make)}" for name, make in TABLES.items()),
    ]
    return "\n\n".join(text)


HELD = {
    "Catalog": ["pkray.connect", "pkray.connect_as_set", "pkray.Catalog"],
    "Table": ["pkray.Table", "pkray.scan.view.SnapshotView", "pkray.SystemTable"],
    "Writers": ["pkray.TableWriter", "pkray.service.client.push_session.PushSession"],
    "Parts of a table": [
        "pkray.api.table.Alter",
        "pkray.table.maintenance.tags.Tags",
        "pkray.table.maintenance.branches.Branches",
        "pkray.table.maintenance.consumers.Consumers",
    ],
    "Backups": [f"pkray.api.backups.{name}" for name in ("Backups", "Backup", "BackupCheck")],
    "Metrics": ["pkray.api.metrics.Metrics"],
    "What tables hold": ["pkray.Snapshot", "pkray.TableSchema", "pkray.DataType"],
}
"""What a user holds: how it is called, by where it is made."""


def tables() -> str:
    """The catalog, tables and what they give."""
    return _api(
        "Catalogs and tables",
        "`import pkray` brings these. What is made by a method has no constructor of its own to "
        "call.",
        HELD,
    )


def queries() -> str:
    """Relations, statements and continuous queries."""
    rest = [
        f"pkray.relational.{name}"
        for name in pkray.relational.__all__
        if name not in ("func", "Relation", "Statement", "Plan", "Changelog", "query")
    ]
    return _api(
        "Queries",
        "`catalog.sql(…)`, `table.relation()` and `from_arrow(…)` give a `Relation` or a "
        "`Statement`; `materialize` and `start` give a `Query`.",
        {
            "Relation": ["pkray.relational.Relation"],
            "Statement": ["pkray.relational.Statement"],
            "Continuous queries": [
                "pkray.api.query.Query",
                "pkray.relational.continuous.queries.verification.verify.VerifyReport",
            ],
            "Plans": ["pkray.relational.Plan"],
            "Functions of Python": ["pkray.relational.udf.udf"],
            "Columns, windows and inputs": [
                *rest,
                "pkray.relational.Changelog",
                "pkray.relational.query",
            ],
        },
    )


def engines() -> str:
    """Spark, Ray Data and sources of changes."""
    modules = (pkray.spark, pkray.ray_data, pkray.cdc, pkray.kafka)
    named = {
        module.__name__: [
            f"{module.__name__}.{name}"
            for name in dir(module)
            if not name.startswith("_") and callable(getattr(module, name))
        ]
        for module in modules
    }
    return _api(
        "Spark, Ray Data and sources",
        "Each needs its extra; where it is missing the error names it.",
        {f"`{name}`": listed for name, listed in named.items()},
    )


MEMBERS = "\n   :members:\n   :inherited-members: Exception, dict, tuple"


def _api(title: str, about: str, parts: dict[str, list[str]]) -> str:
    text = [f"# {title}", about]
    for part, names in parts.items():
        text.append(f"## {part}")
        for name in names:
            kind = "class" if inspect.isclass(_object(name)) else "function"
            listed = MEMBERS if kind == "class" else ""
            text.append(f"```{{eval-rst}}\n.. auto{kind}:: {name}{listed}\n```")
    return "\n\n".join(text)


def _object(name: str) -> Any:
    module, _, member = name.rpartition(".")
    return getattr(importlib.import_module(module), member)


def _by(items: list[Any], key: Callable[[Any], str]) -> list[tuple[str, list[Any]]]:
    names = dict.fromkeys(map(key, items))
    return [(name, [each for each in items if key(each) == name]) for name in names]


def _first(made: Any) -> str:
    return _plain((inspect.getdoc(made) or "").partition("\n\n")[0])


def _plain(text: str) -> str:
    """Have what Markdown would take for its own, such as * and <, stand for itself."""
    parts = re.split(r"(`+[^`]*`+)", " ".join(text.split()))
    return "".join(
        each if each.startswith("`") else re.sub(r"([*_<>\[\]$~|\\])", r"\\\1", each)
        for each in parts
    )


def _cell(text: str) -> str:
    return _plain(text).replace("\\|", "|").replace("|", "\\|")


def not_run() -> str:
    """The blocks of code that no test runs."""
    found = [block for page in pages() for block in all_blocks(page) if block.reason]
    rows = "".join(
        f"\n| {block.page.removeprefix('../')} | {block.line} | {block.reason} |" for block in found
    )
    return "\n\n".join(
        [
            "# What no test runs",
            "The tests follow the pages of this manual and run their blocks of Python, SQL and "
            "commands. These are left out; tests of their parts are elsewhere.",
            f"| page | line | why |\n|---|---|---|{rows}",
        ]
    )


PAGES = (tables, queries, engines, command_line, options, settings, functions)
PAGES += (states, system_tables, metrics, errors, not_run)
