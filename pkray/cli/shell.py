"""The SQL shell: history, completion, and statements over several lines."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from pkray import relational
from pkray.api.catalog import Catalog
from pkray.cli.statements import Printer, run
from pkray.cli.wording import in_options
from pkray.errors import PkrayError
from pkray.extras import is_installed
from pkray.relational.api.composing import in_dialect
from pkray.relational.sql.statements.reading import ends_statement

_PROMPT = "pkray> "
_MORE = "    -> "
_HISTORY = ".pkray_history"
_ENDS = ("quit", "exit", "\\q")
_HELP = """Statements end with a semicolon. quit, exit or Ctrl-D leaves.
SHOW TABLES; DESCRIBE shop.orders; SHOW FUNCTIONS LIKE 'date*'; SET; list what there is."""
KEYWORDS = (
    "ADD", "ALL", "ALTER", "AND", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "COLUMN",
    "CREATE", "CROSS", "CUBE", "DATABASE", "DATABASES", "DELETE", "DESC", "DESCRIBE",
    "DISTINCT", "DROP", "ELSE", "END", "EXCEPT", "EXECUTE", "EXISTS", "EXPLAIN", "FILTER",
    "FROM", "FULL", "FUNCTIONS", "GROUP", "HAVING", "IN", "INNER", "INSERT", "INTERSECT",
    "INTERVAL", "INTO", "IS", "JOIN", "LEFT", "LIKE", "LIMIT", "MERGE", "NOT", "NULL", "NULLS",
    "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER", "PARTITION", "PLAN", "PRIMARY", "QUALIFY",
    "RANGE", "RENAME", "RESET", "RIGHT", "ROLLUP", "ROWS", "SELECT", "SET", "SHOW", "TABLE",
    "TABLES", "THEN", "TRUNCATE", "UNION", "UPDATE", "USE", "USING", "VALUES", "VIEW", "VIEWS",
    "WHEN", "WHERE", "WITH",
)  # fmt: skip
_WORD = re.compile(r"[\w$.]*$")
_TABLES = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+([\w$.]+)", re.IGNORECASE)


class Shell:
    """Reads statements from a terminal and runs them, until it is left."""

    def __init__(
        self, catalog: Catalog, printer: Printer, dialect: str, *, continuous: bool = False
    ) -> None:
        self._catalog = catalog
        self._printer = printer
        self._dialect = dialect
        self._continuous = continuous

    def run(self, read: Callable[[str], str] | None = None) -> None:
        """Read and run statements.

        Args:
            read: gives a line for a prompt; EOFError ends. Default: the terminal, with history and
                completion where prompt_toolkit is installed.
        """
        read = read or _terminal(self._catalog)
        print(_HELP)
        while True:
            try:
                statement = self._statement(read)
            except EOFError:
                return
            except KeyboardInterrupt:
                print()
                continue
            if statement.lower() in _ENDS:
                return
            if statement.lower() in ("help", "\\h", "?"):
                print(_HELP)
            elif statement:
                self._do(statement)

    def _statement(self, read: Callable[[str], str]) -> str:
        """Read lines until one ends a statement."""
        lines = [read(_PROMPT)]
        while not is_whole("\n".join(lines), self._dialect):
            lines.append(read(_MORE))
        return "\n".join(lines).strip().rstrip(";").strip()

    def _do(self, statement: str) -> None:
        try:
            run(self._catalog, statement, self._dialect, self._printer, continuous=self._continuous)
        except (PkrayError, pa.ArrowException, OSError) as error:
            message = in_options(error) if isinstance(error, PkrayError) else str(error)
            print(f"error: {message}", file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)


def is_whole(text: str, dialect: str) -> bool:
    """Whether text ends a statement: by a semicolon, or as a word that the shell knows."""
    bare = text.strip()
    if not bare or bare.lower() in (*_ENDS, "help", "\\h", "?"):
        return True
    return ends_statement(text, in_dialect(dialect))


def completions(catalog: Catalog, before: str) -> Iterator[str]:
    """List what may stand at the end of a text: columns of its tables, tables, keywords,
    functions.
    """
    word = _WORD.search(before)
    written = word[0] if word else ""
    if not written:
        return
    for each in _candidates(catalog, before):
        if each.lower().startswith(written.lower()):
            yield each


def _candidates(catalog: Catalog, before: str) -> Iterator[str]:
    session = catalog.session
    for name in dict.fromkeys(_TABLES.findall(before)):
        with suppress(PkrayError):
            yield from catalog.sql(f"SELECT * FROM {name}").columns
    yield from session.views
    with suppress(PkrayError):
        here = f"{session.database}."
        for table in [*catalog.list_tables(), *catalog.views()]:
            yield table
            if table.startswith(here):
                yield table.removeprefix(here)
    yield from KEYWORDS
    yield from dir(relational.func)


def _terminal(catalog: Catalog) -> Callable[[str], str]:
    """Make what reads lines: with history and completion where that is installed."""
    if not is_installed("prompt_toolkit"):
        with suppress(ImportError):
            import readline  # noqa: F401 # input() has history by it
        return input
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory

    class Names(Completer):
        def get_completions(self, document, event):  # type: ignore[no-untyped-def]
            before = document.text_before_cursor
            word = _WORD.search(before)
            start = -len(word[0]) if word else 0
            for each in completions(catalog, before):
                yield Completion(each, start_position=start)

    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(Path.home() / _HISTORY)),
        completer=Names(),
        complete_while_typing=False,
    )
    return session.prompt
