"""Arguments and options that the Spark commands share: the session, and the bucket that its workers open."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ledgerfs.cli.options import parsed_texts, storage_option, storage_options_of
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ledgerfs.spark.runtime.storage import Storage

WHAT_IS_NEEDED = "Spark needs pip install '.[spark]' in a clone and Java 17 (Debian: openjdk-17-jre-headless)"
"""The advice if Spark or Java is missing."""

_MASTERS = ("local", "spark://", "k8s://", "yarn")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of the session. A command opens the session after all its other checks."""

    master: str | None
    settings: dict[str, str]

    def open(self, name: str) -> "SparkSession":
        """Return the session. Raises `click.ClickException` if Spark cannot start."""
        # Spark is installed: the callback of the argument BUCKET has imported it.
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        from ledgerfs.spark.runtime.session import open_session
        from ledgerfs.spark.runtime.tasks import line_of

        try:
            return open_session(name, self.master, self.settings)
        except (PySparkException, Py4JError) as error:
            raise click.ClickException(f"cannot start Spark: {line_of(error)}") from error


def session_options(command: Command) -> Command:
    """Add --master and --conf; the command gets a `SessionOptions` as ``session``."""
    master = click.option(
        "--master", metavar="URL", callback=_keep_master, is_eager=True, expose_value=False,
        help="Spark's master: local[4], spark://host:7077, …  [default: that of spark-submit, else all cores of this machine]",
    )  # fmt: skip
    settings = click.option(
        "--conf", "session", multiple=True, metavar="KEY=VALUE", callback=_session, help="A setting of Spark; may be repeated."
    )  # fmt: skip
    return master(settings(command))


def storage_argument(command: Command) -> Command:
    """Add the argument BUCKET and the option -o; the command gets a `Storage` as ``storage``."""
    return click.argument("storage", metavar="BUCKET", callback=_storage)(storage_option(command))


def _keep_master(context: click.Context, _: click.Parameter, master: str | None) -> None:
    """Check --master and store it for `_session`. For an invalid master, Spark's start script would print a Java stack trace."""
    if master is not None and not master.startswith(_MASTERS):
        raise click.BadParameter(f"{master!r} is not a master of Spark: expected yarn, local…, spark://… or k8s://…")
    context.meta["ledgerfs.spark.master"] = master


def _session(context: click.Context, _: click.Parameter, values: tuple[str, ...]) -> SessionOptions:
    return SessionOptions(context.meta.get("ledgerfs.spark.master"), parsed_texts(values))


def _storage(context: click.Context, _: click.Parameter, url: str) -> "Storage | None":
    if context.resilient_parsing:
        return None
    try:
        from ledgerfs.spark.runtime.storage import Storage
    except ImportError as error:
        raise click.ClickException(f"{error}; {WHAT_IS_NEEDED}") from error
    return Storage(url, storage_options_of(context))
