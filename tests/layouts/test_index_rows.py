"""Rows of the catalog are the same whether a kernel reads the indexes or the parser."""

from collections.abc import Sequence

import numpy as np
import pytest

from ledgerfs.catalog.catalog_rows import Table
from ledgerfs.catalog.layout import Names
from ledgerfs.errors import AccessDeniedError, LedgerfsError
from ledgerfs.formats.origin import Origin
from ledgerfs.formats.pulsar_blob.index import MAX_INDEX_BYTES, build_index, parse_index
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.layouts.pulsar_blob import index_rows
from ledgerfs.layouts.pulsar_blob.columns import LISTED, keys_of, listed_row
from ledgerfs.layouts.pulsar_blob.index_rows import IndexRows
from ledgerfs.storage.objects import ObjectStat
from tests.support.ledgers import NAME, offload


def indexes() -> list[bytes | LedgerfsError]:
    """Return every kind of index: of several topics, of none, marked, odd, damaged, too large to be read, and not read."""
    found: list[bytes | LedgerfsError] = []
    for i in range(40):
        name = None if i % 7 == 0 else f"public/default/persistent/topic-{i % 3}"
        bookies = () if i % 5 == 0 else ("127.0.0.1:3181",)
        found.append(
            offload([b"x" * i] * (i + 1), i, name=name, bookies=bookies, created_ms=i or None, block_size=300).index
        )
    marked = parse_index(offload([b"x"], 1).index)
    for metadata in (marked.metadata.moved(), marked.metadata.made_of(Origin(1, 2, 3))):
        found.append(build_index(type(marked)(marked.data_length, marked.header_length, metadata, marked.blocks)))
    sound = offload([b"y"], 2).index
    found += [sound + b"more", sound[:-3], b"", b"\0" * 50, AccessDeniedError("denied", key="k"), sound, sound]
    return found


def rows_of(
    outcomes: Sequence[bytes | LedgerfsError], sizes: dict[int, int]
) -> tuple[Table, list[str], list[tuple[LedgerKey, str]]]:
    stats = [
        (
            LedgerKey(f"00000000-0000-0000-0000-{i:012x}", i, is_index=True),
            len(outcome) if isinstance(outcome, bytes) else 9,
        )
        for i, outcome in enumerate(outcomes)
    ]
    listed = np.array(
        [listed_row(key, ObjectStat(key.index_key, sizes.get(i, size), i, f"v{i}")) for i, (key, size) in enumerate(stats)],
        LISTED,
    )  # fmt: skip
    names = Names()
    rows = IndexRows(listed, names)
    for key, outcome in zip(keys_of(listed), outcomes, strict=True):
        rows.take(key, outcome)
    table, bad = rows.tables()
    # Numbers of names follow the order in which they were met.
    texts = [names.texts[row] for row in table["name"].tolist()]
    table["name"] = 0
    return table, texts, [(one.key, str(one.error)) for one in bad]


@pytest.mark.parametrize("batch", [1, 7, 4096])
def test_of_many_they_are_those_of_few(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    outcomes = indexes()
    last = len(outcomes) - 1
    sizes = {last: MAX_INDEX_BYTES + 1}
    outcomes[last] = b""
    table, names, bad = rows_of(outcomes, sizes)
    assert len(table) == len(outcomes) - 5
    assert [key.ledger_id for key, _ in bad] == [43, 44, 45, 46, last]
    assert set(names) == {None, NAME, *(f"public/default/persistent/topic-{i}" for i in range(3))}
    monkeypatch.setattr(index_rows, "_MANY", 0)
    monkeypatch.setattr(index_rows, "_BATCH", batch)
    many, many_names, many_bad = rows_of(outcomes, sizes)
    assert many.tobytes() == table.tobytes()
    assert (many_names, many_bad) == (names, bad)
