"""``ledgerfs head --follow``: the messages of a topic as they arrive, until Ctrl-C or until the reader closes the output."""

import errno
import select
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ledgerfs.cli.notices import say_left_out
from ledgerfs.cli.output import say
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptSchemaFileError,
    InvalidSchemaError,
    UnsupportedFormatError,
)
from ledgerfs.scan.options import OF_VALUES

if TYPE_CHECKING:
    import pyarrow as pa

    from ledgerfs.scan.following import Following

Rows = TypeVar("Rows")

_UNUSABLE = (AccessDeniedError, CorruptSchemaFileError, InvalidSchemaError, UnsupportedFormatError)
"""Errors of an unusable saved schema; values are then shown as bytes."""

_NOT_WITH_FOLLOW = {
    "start_time": "use --from to choose the start",
    "end_time": "a followed topic has no end",
    "order": "messages of all partitions are shown as they arrive",
}


def start_of(context: click.Context, begin: str | None, *, follow: bool, scan: Mapping[str, Any]) -> str:
    """Return where following begins: at ``--from``, else at the end of the topic, or with -n at its beginning.

    Raises `click.UsageError` for conflicting options.
    """
    if not follow:
        if begin is not None:
            raise click.UsageError("--from needs --follow; without --follow, use --start", context)
        return "latest"
    for name, reason in _NOT_WITH_FOLLOW.items():
        if name in scan or (name == "order" and _is_given(context, name)):
            option = {"start_time": "--start", "end_time": "--end"}.get(name, "--order")
            raise click.UsageError(f"{option} cannot be used with --follow: {reason}", context)
    if begin is not None:
        return begin
    return "earliest" if _is_given(context, "messages") else "latest"


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def with_usable_schema(rows: Callable[..., Rows], topic: str, given: Mapping[str, Any]) -> tuple[Rows, bool]:
    """Call ``rows`` with scan options; return its result, and whether the topic's schema could be used.

    Values are typed by their schemas, unless the options choose another format; with an unusable schema they are bytes.
    """
    shown = {} if given.get("values") == "bytes" else {"values": "auto", "on_undecodable": "null"}
    try:
        return rows(**{**shown, **given}), True
    except _UNUSABLE as error:
        if "values" in given:
            raise
        reason = error.reason if isinstance(error, InvalidSchemaError) else error
        say(f"{topic}: values are shown as bytes, because the schema cannot be used: {reason}")
        return rows(**{name: value for name, value in given.items() if name not in OF_VALUES}), False


def show_following(following: "Following", write: "Callable[[Iterable[pa.RecordBatch]], None]") -> bool:
    """Write batches as they arrive, and report omissions on standard error; return whether there was damage.

    Raises `BrokenPipeError` as soon as the reader of the output has exited, even if no message arrives.
    """
    reported = _Reported(following)

    def wait() -> None:
        reported.tell()
        _require_reader()

    following.on_wait = wait
    for batch in following:
        write([batch])
        sys.stdout.flush()
        reported.tell()
    reported.tell()
    return reported.is_damaged


@dataclass(slots=True)
class _Reported:
    """Reports each omission of following once."""

    following: "Following"
    is_damaged: bool = False
    _skipped: int = 0
    _incomplete: int = 0
    _values: set[tuple[int | None, str]] = field(default_factory=set)

    def tell(self) -> None:
        """Report new omissions."""
        skipped, incomplete = self.following.skipped[self._skipped :], self.following.incomplete[self._incomplete :]
        values = [one for one in self.following.undecodable if (one.version, one.reason) not in self._values]
        if not skipped and not incomplete and not values:
            return
        self._skipped += len(skipped)
        self._incomplete += len(incomplete)
        self._values.update((one.version, one.reason) for one in values)
        # This imports numba, which following has already imported.
        from ledgerfs.scan.report import ScanReport

        self.is_damaged |= say_left_out(ScanReport(self.following.topic, skipped, incomplete, values))


def _require_reader() -> None:
    """Raise `BrokenPipeError` if standard output is a pipe whose reader has exited: without messages no write would fail."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    if any(event & select.POLLERR for _, event in poller.poll(0)):
        raise BrokenPipeError(errno.EPIPE, "the reader closed the output")
