"""The command that runs SQL: statements, a file of them, or a shell."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pkray.api.catalog import Catalog
from pkray.cli.shell import Shell
from pkray.cli.statements import Printer, run
from pkray.cli.utf8 import Utf8
from pkray.cli.warehouse import on_service
from pkray.relational.api.composing import in_dialect
from pkray.relational.sql.statements.reading import split_statements

Text = Annotated[
    str | None, typer.Argument(metavar="[SQL]", help="Statements, divided by semicolons.")
]
File = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="A file of them; '-': stdin.")
]
Written = Annotated[
    str, typer.Option("--dialect", metavar="spark|flink", help="The rules of types and NULLs.")
]
Csv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")]
Continuous = Annotated[
    bool, typer.Option("--continuous", help="Let an INSERT go on as its sources change.")
]
Functions = Annotated[
    bool, typer.Option("--functions", help="List the functions that there are, with their types.")
]


@on_service
def sql(
    catalog: Catalog,
    text: Text = None,
    file: File = None,
    dialect: Written = "spark",
    csv: Csv = False,
    continuous: Continuous = False,
    functions: Functions = False,
    as_json: bool = False,
) -> None:
    """Run SQL; without any, a shell in which statements end with a semicolon."""
    kind = in_dialect(dialect)
    printer = Printer(as_json=as_json, as_csv=csv)
    if functions:
        printer.show(catalog.sql("SHOW FUNCTIONS", dialect))
        return
    if text is not None and file is not None:
        raise typer.BadParameter("give SQL or --file: not both")
    if text is None and file is None and sys.stdin.isatty():
        Shell(catalog, printer, dialect, continuous=continuous).run()
        return
    script = text if text is not None else _read(file)
    for statement in split_statements(script, kind):
        run(catalog, statement, dialect, printer, continuous=continuous)


def _read(file: Path | None) -> str:
    if file is None or str(file) == "-":
        return Utf8(sys.stdin.buffer, "stdin").read().decode()
    try:
        with file.open("rb") as source:
            return Utf8(source, f"--file {file}").read().decode()
    except OSError as error:
        raise typer.BadParameter(f"--file {file} cannot be read: {error.strerror}") from None
