"""``ledgerfs info``: all details of one ledger."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import bucket_argument, json_option
from ledgerfs.cli.output import print_json, progress, show, table
from ledgerfs.display import human_size, printable

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


@command()
@bucket_argument
@click.argument("ledger_id", metavar="LEDGER", type=click.IntRange(min=0))
@click.option("--topic", help="Topic of the ledger, if several topics have a ledger of this id.")
@click.option("--uuid", help="The copy with this uuid.")
@json_option
def info(bucket: "Bucket", ledger_id: int, topic: str | None, uuid: str | None, as_json: bool) -> None:
    """Show index, metadata, blocks and objects of a ledger.

    \b
    Examples:
      ledgerfs info s3://tier 58
      ledgerfs info s3://tier 58 --json | jq .ledger_metadata.custom
    """
    with progress() as update:
        bucket.load_catalog(update)
    described = bucket.ledger(ledger_id, topic=topic, uuid=uuid).describe()
    if as_json:
        print_json(described)
    else:
        _print_tables(described)


def _print_tables(described: dict[str, Any]) -> None:
    blocks, objects = described.pop("blocks"), described.pop("objects")
    facts = table("", "")
    facts.show_header = False
    for name, value in _flat(described):
        facts.add_row(printable(name), printable(_text(name, value)))
    for role, described_object in objects.items():
        for name, value in _flat(described_object, f"{role} object"):
            facts.add_row(printable(name), printable(_text(name, value)))
    show(facts)
    click.echo()
    columns = list(blocks[0]) if blocks else []
    titles = ("block", *(name.replace("_", " ") for name in columns))
    rows = table(*titles, right=titles)
    for number, block in enumerate(blocks):
        rows.add_row(str(number), *(str(block[name]) for name in columns))
    show(rows)


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, one in value.items():
        full = f"{prefix} {name}".strip().replace("_", " ")
        if isinstance(one, dict):
            rows += _flat(one, full)
        else:
            rows.append((full, one))
    return rows


def _text(name: str, value: Any) -> str:  # noqa: ANN401  (any JSON value)
    if value is None:
        return "-"
    if isinstance(value, list):
        return "; ".join(f"from entry {one['first_entry']}: {', '.join(one['bookies'])}" for one in value)
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and name.rsplit(maxsplit=1)[-1] in {"size", "length", "padding"}
    ):
        return f"{value} ({human_size(value)})" if abs(value) >= 1024 else str(value)
    return str(value)
