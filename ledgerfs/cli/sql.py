"""``ledgerfs sql``: query topics with DuckDB."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import announce_compiling, say_left_out
from ledgerfs.cli.options import bucket_argument
from ledgerfs.cli.output import progress, say, show, table, terminal_width
from ledgerfs.cli.scan_options import scan_options
from ledgerfs.display import human_size, printable
from ledgerfs.errors import InvalidOptionError, LedgerfsError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.query.connection import SqlSession

_SHOWN_ROWS = 200
_ROWS_AT_ONCE = 1 << 16
_AS_TEXT = frozenset({"interval", "union", "time with time zone", "bit", "uhugeint", "bignum"})
"""DuckDB's types without a form in JSON, CSV or Parquet."""


@command()
@bucket_argument
@click.argument("statement", metavar="[SQL]", required=False)
@click.option("--json", "kind", flag_value="jsonl", help="Print one JSON object for each row.")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV with a header.")
@click.option("--parquet", metavar="FILE", help="Write the rows to a new Parquet file.")
@scan_options
@click.pass_context
def sql(
    context: click.Context,
    bucket: "Bucket",
    statement: str | None,
    scan: dict[str, Any],
    *,
    kind: str | None,
    parquet: str | None,
) -> None:
    """Query topics with SQL (DuckDB).

    A quoted topic name is a table: 'public/default/orders'. So is a pattern, 'public/default/*', and a partitioned topic. Values are
    columns by the topics' saved schemas; without one, or where those of a pattern differ, the column value has bytes. Only the needed
    columns are decoded, and conditions on publish_time, ledger_id and entry_id skip ledgers and blocks. Statements cannot read files
    or change settings.

    Without SQL, reads statements from standard input, each up to a semicolon. A terminal gets a table of the first 200 rows; --json,
    --csv and --parquet write all rows.

    \b
    Examples:
      ledgerfs sql s3://tier "select key, count(*) from 'public/default/orders' group by 1 order by 2 desc limit 5"
      ledgerfs sql s3://tier "select * from 'public/default/orders' where publish_time > now() - interval 1 day" --csv
      ledgerfs sql s3://tier "select topic, count(*) from 'public/default/*' group by 1" --json
      ledgerfs sql s3://tier "from 'public/default/orders' select key, value" --parquet orders.parquet
      ledgerfs sql s3://tier
    """
    if parquet is not None and (kind is not None or statement is None):
        raise click.UsageError("--parquet needs one statement, and neither --json nor --csv", context)
    with progress() as update:
        bucket.load_catalog(update)
    announce_compiling()
    with _session(bucket, scan) as session:
        if statement is None:
            _run_all(session, kind)
        elif parquet is None:
            _run_each(session, statement, kind)
        else:
            _write_new(session, statement, parquet)
        if sum([say_left_out(report) for report in session.tables.reports]):
            context.exit(1)


def _session(bucket: "Bucket", scan: dict[str, Any]) -> "SqlSession":
    try:
        # An optional library, which also takes a while to import.
        from ledgerfs.query.connection import SqlSession, Tables
    except ImportError as error:
        raise InvalidOptionError(f"SQL needs DuckDB: install the extra 'sql' of ledgerfs ({error})") from error
    from ledgerfs.scan.options import ScanOptions

    if "columns" in scan:
        raise InvalidOptionError("name the columns in the statement", key="--columns")
    values = {} if "values" in scan else {"values": "auto", "flatten": True}
    return SqlSession(Tables(bucket, ScanOptions(**{**values, **scan})))


def _run_all(session: "SqlSession", kind: str | None) -> None:
    """Run the statements on standard input; in a terminal, an error does not end the session."""
    is_terminal = sys.stdin.isatty()
    for text in _texts(is_terminal=is_terminal):
        try:
            _run_each(session, text, kind)
        except LedgerfsError as error:
            if not is_terminal:
                raise
            say(str(error))


def _texts(*, is_terminal: bool) -> Iterator[str]:
    """Yield the lines of standard input up to each one that ends with a semicolon, with line editing in a terminal."""
    if is_terminal:
        import readline  # noqa: F401  (edits the lines that `input` reads)
    lines: list[str] = []
    while True:
        try:
            lines.append(input(("...> " if lines else "sql> ") if is_terminal else ""))
        except EOFError:
            break
        if lines[-1].rstrip().endswith(";"):
            yield "\n".join(lines)
            lines = []
    if "".join(lines).strip():
        yield "\n".join(lines)


def _run_each(session: "SqlSession", text: str, kind: str | None) -> None:
    for statement in session.split(text):
        _run(session, statement, kind)


def _run(session: "SqlSession", statement: str, kind: str | None) -> None:
    """Print the rows of a statement: in a terminal the first ones as a table."""
    with _rows_of(session, statement) as rows:
        if rows is None:
            return
        if kind is None and terminal_width() is not None:
            _show(rows)
            return
        sys.stdout.flush()
        _write(rows, kind or "csv", sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _write_new(session: "SqlSession", statement: str, path: str) -> None:
    """Write the rows of a statement to a new file; removes it after an error."""
    if len(session.split(statement)) != 1:
        raise InvalidOptionError("--parquet needs exactly one statement", key="SQL")
    try:
        file = Path(path).open("xb")  # noqa: SIM115  (closed below)
    except OSError as error:
        raise InvalidOptionError(f"cannot create this file: {error.strerror}", key=f"--parquet {path}") from error
    with file:
        try:
            with _rows_of(session, statement) as rows:
                if rows is None:
                    raise InvalidOptionError("the statement has no rows", key="SQL")
                written = _write(rows, "parquet", file)
        except BaseException:
            Path(path).unlink()
            raise
        click.echo(f"{printable(path)}: {written:,} rows, {human_size(file.tell())}")


@contextmanager
def _rows_of(session: "SqlSession", statement: str) -> "Iterator[duckdb.DuckDBPyRelation | None]":
    """Run a statement; errors while its rows are fetched become `SqlSession.refused`."""
    rows = session.run(statement)
    try:
        yield rows
    except Exception as error:
        raise session.refused(error) from error


def _show(rows: "duckdb.DuckDBPyRelation") -> None:
    shown = table(*map(printable, rows.columns))
    found = rows.limit(_SHOWN_ROWS + 1).to_arrow_table()
    for row in zip(*(column.to_pylist() for column in found.slice(0, _SHOWN_ROWS).columns), strict=True):
        shown.add_row(*map(_text, row))
    show(shown)
    if found.num_rows > _SHOWN_ROWS:
        say(f"these are the first {_SHOWN_ROWS} rows; --json and --csv print all of them")


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    return printable(value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value))


def _write(rows: "duckdb.DuckDBPyRelation", kind: str, sink: BinaryIO) -> int:
    """Write the rows, and return their number."""
    from ledgerfs.tables.table_files import write_table

    lower = [name.lower() for name in rows.columns]
    if len(set(lower)) < len(lower):
        twice = next(name for name in rows.columns if lower.count(name.lower()) > 1)
        raise InvalidOptionError(
            f"two columns have the name {twice!r}: give one of them another name with AS", key="SQL"
        )
    quoted = ['"' + name.replace('"', '""') + '"' for name in rows.columns]
    columns = (
        f"{name}::varchar as {name}" if kind.id in _AS_TEXT else name
        for name, kind in zip(quoted, rows.types, strict=True)
    )
    reader = rows.project(", ".join(columns)).to_arrow_reader(_ROWS_AT_ONCE)
    batches = map(_with_integers, reader) if kind == "jsonl" else reader
    return write_table(batches, reader.schema, sink, kind)


def _with_integers(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Return the rows with 64 bits for integers of 128, DuckDB's sums, which Arrow has as decimals; not if they need more."""
    import pyarrow as pa

    columns = []
    for column in batch.columns:
        try:
            columns.append(column.cast(pa.int64()) if column.type == pa.decimal128(38, 0) else column)
        except pa.ArrowInvalid:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)
