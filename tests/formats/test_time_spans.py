"""Spans of time as people write them."""

import pytest

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.byte_sizes import parse_size
from ledgerfs.formats.time_spans import parse_span
from tests.support.each import for_each


@for_each(
    ("text", "expected"),
    [("90s", 90_000), ("60", 60_000), ("1.5h", 5_400_000), (" 7 d ", 604_800_000), ("5m", 300_000), ("0s", 0)],
)
def test_spans_have_units(text: str, expected: int) -> None:
    assert parse_span(text) == expected


@for_each("text", ["", "s", "-1s", "1w", "1e3", "1 h 5 m", "1H", "9" * 400, "\u0661s", "1s\n2"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="invalid time"):
        parse_span(text)


def test_sizes_go_up_to_terabytes() -> None:
    assert (parse_size("2TiB"), parse_size("2 TB")) == (2 << 40, 2 * 10**12)
