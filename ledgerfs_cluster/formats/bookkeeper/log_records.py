"""The records of an entry log, and of a journal: ``int32 size | entry``, one after the other (``docs/formats/entry-logs.md``).

One kernel walks a file and reads only headers. Bytes that are not a record become a gap, and the walk continues where two records follow
each other. Writers' padding is not damage: zeros in both kinds of files, 0xF0 up to a multiple of 4096 in logs, special records in
journals.

A damaged size hides the bytes after it, up to megabytes of sound entries if it is too large. So if no record follows a record, digests
decide which of the two is wrong, and how long it is (`entry_ends.py`): the entry gets the length that fits, and the four bytes of its size
become a gap.

A file may be walked in windows, each a front part of the rest of the file. The walk decides nothing that bytes after the window may change:
it stops before such bytes, and before the two records that lead there. So its state at a position is only whether it is searching, and how
many bytes it checked digests of, and windows give the same result as one walk over the file.
"""

from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.kernel import inlined_kernel, inner_kernel, kernel
from ledgerfs.formats.memory_loads import load_int32, load_int64, load_uint32
from ledgerfs_cluster.formats.bookkeeper.entry_ends import fitting_end, has_header, is_fitting

MOST_ENTRY_BYTES = 5_253_120 + 1024
"""``nettyMaxFrameSizeBytes`` of Pulsar's bookies plus a margin; no entry is larger, unless the caller passes a larger limit."""
WINDOW_ALIGNMENT = 4096
"""Windows begin at multiples of it in the file."""
_COLUMNS, _GAP_COLUMNS = 4, 2
_MOST_ASKED = 256 << 20
"""Bytes of a file whose digests are checked, which takes some seconds: pure garbage is then only searched."""
_LEAST_ASKED = 256
"""Least cost of one digest check, bytes."""
_AT, _FILLED, _IS_LOST, _ASKED = range(4)
_STATE = 9
"""Size of a walk's state: current position, end of filled bytes, whether it is searching, bytes of digest checks; start of the last entry,
its end, and the end of filled bytes before it; start of the entry before, if that ends at the last one's start, else -1, and its end of
filled bytes."""
_ZEROS_OF_ENTRY = 11
"""Most leading zeros of an entry, of a zero size and a ledger's id; zeros of ids 0 look like padding."""
_ZEROS_LEFT = 16
_FIRST_ROWS = 1 << 16
_MOST_GAPS = 10_000
"""Most rows that are allocated at once."""


def least_window_bytes(most_bytes: int = MOST_ENTRY_BYTES) -> int:
    """Return the least size of a window with ``start`` below `WINDOW_ALIGNMENT` that always makes progress: ``end > start``."""
    return 3 * (most_bytes + 4) + 2 * WINDOW_ALIGNMENT


@dataclass(frozen=True, slots=True)
class LogRecords:
    """The entries of a log or a journal, or of a window of one, in the order of their positions, which count from the given bytes.

    Attributes
    ----------
    starts, sizes
        Start of each entry, after its size field, and its bytes; shape (entries,).
    ledger_ids, entry_ids
        Ids in each entry; check its digest to trust them.
    gaps
        Bytes that are not a record, as (start, end); shape (gaps, 2). The last one may be an unfinished record at the end of the log. A gap
        that continues after a window ends with it, and touches the first gap of the next window.
    end
        Start of the next window's walk; in the last window, after the last record, or after the last byte read.
    filled_to
        After the last record or gap: from there to ``end`` is only padding; the start of the walk if all is padding. Continue a growing log
        there, since bookies extend files with zeros, and overwrite these.
    ends_in_gap, asked
        Whether the walk was searching when it stopped, and the bytes of its digest checks so far: pass both to the next window.

    """

    starts: Int64
    sizes: Int64
    ledger_ids: Int64
    entry_ids: Int64
    gaps: Int64
    end: int
    filled_to: int
    ends_in_gap: bool
    asked: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all bytes are records or padding."""
        return not self.gaps.size


def scan_records(
    data: Bytes,
    start: int,
    most_bytes: int = MOST_ENTRY_BYTES,
    *,
    is_journal: bool = False,
    is_end: bool = True,
    in_gap: bool = False,
    asked: int = 0,
) -> LogRecords:
    """Find the records of a log, or of a journal file, from ``start`` on: the first record, or the end of an earlier scan.

    ``data`` is all of the log, or with ``is_end=False`` a window of it: it begins at a multiple of `WINDOW_ALIGNMENT` of the log, since
    padding ends at such positions, and leaves a record that may extend after it to the next window. That one begins at the last multiple up
    to ``end``, with this result's ``ends_in_gap`` and ``asked`` as ``in_gap`` and ``asked``. A window smaller than `least_window_bytes` may
    find nothing: then use a larger one.

    Special records (maps and fillers, of ledger -1) are skipped. In a journal a size of 0 is where the bookie had not written yet; records
    after such zeros are found. Raises no errors: damage becomes gaps.
    """
    state = np.zeros(_STATE, np.int64)
    state[:] = (max(0, start), max(0, start), in_gap, asked, -1, -1, 0, -1, 0)
    rows = np.empty((_FIRST_ROWS, _COLUMNS), np.int64)
    gaps = np.empty((16, _GAP_COLUMNS), np.int64)
    found: list[Int64] = []
    holes: list[Int64] = []
    while True:
        count, broken = _walk(data, most_bytes, is_end, is_journal, state, rows, gaps)
        found.append(rows[:count].copy())
        holes.append(gaps[:broken].copy())
        if count < len(rows) and broken < len(gaps):
            break
        if count == len(rows):
            rows = np.empty((2 * len(rows), _COLUMNS), np.int64)
        gaps = np.empty((min(_MOST_GAPS, 4 * len(gaps)), _GAP_COLUMNS), np.int64)
    at, filled_to = int(state[_AT]), int(state[_FILLED])
    table = np.concatenate(found)
    if len(table) and table[-1, 0] >= at:
        # Leave the last records to the next window, which may find that their sizes are wrong.
        table = table[table[:, 0] < at]
    starts, sizes, ledger_ids, entry_ids = (np.ascontiguousarray(table[:, column]) for column in range(_COLUMNS))
    gaps = np.concatenate(holes)
    return LogRecords(
        starts, sizes, ledger_ids, entry_ids, gaps, at, filled_to, bool(state[_IS_LOST]), int(state[_ASKED])
    )


@inner_kernel
def _zeros_end(data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the position of the first byte from ``at`` on that is not zero."""
    while at + 8 <= data.size and load_int64(data, at) == 0:  # type: ignore[call-arg]
        at += 8
    while at < data.size and data[at] == 0:
        at += 1
    return at


@inner_kernel
def _is_special(data, at, size, entry):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return whether a journal's record is about a ledger: its key, a fence, or its explicit LAC."""
    if entry == -0x2000 or entry == -0x4000:  # noqa: PLR1714  (a tuple is slower)
        return size == 16
    if (entry == -0x1000 or entry == -0x8000) and size >= 20:  # noqa: PLR1714
        return size == 20 + np.int64(load_int32(data, at + 20))  # type: ignore[call-arg]
    return False


@inner_kernel
def _padding_span(data, at, most_bytes, is_end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the bytes of a journal's padding: its mark, the number of bytes that follow, and these, all zeros; 0 if none, -1 if unknown.

    Padding with other bytes becomes a gap, since skipping a wrong length would hide entries.
    """
    if at + 8 > data.size or load_uint32(data, at) != 0xFFFFFF00:  # type: ignore[call-arg]
        return 0
    size = np.int64(load_uint32(data, at + 4))  # type: ignore[call-arg]
    end = at + 8 + size
    if size > most_bytes or _zeros_end(data[: min(end, data.size)], at + 8) < min(end, data.size):
        return 0
    if end > data.size:
        return 0 if is_end else -1
    return 8 + size


@inlined_kernel
def _span(data, at, most_bytes, is_end, is_journal):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0911
    """Return the bytes of the record that may begin here, all of it in the file: 0 if none does, -1 if bytes after the window decide.

    Checks its size, and the numbers of the entry. Entries have a header of 32 bytes; in logs, records of ledger -1 (maps, fillers) have 16
    at least.
    """
    if at + 36 > data.size and not is_end:
        return np.int64(-1)
    if is_journal and data[at] == 0xFF:
        return np.int64(_padding_span(data, at, most_bytes, is_end))
    if at + 4 > data.size:
        return np.int64(0)
    size = np.int64(load_uint32(data, at))  # type: ignore[call-arg]
    if size < 16 or size > most_bytes:
        return np.int64(0)
    span = 4 + size
    if at + span > data.size:
        if is_end:
            return np.int64(0)
        span = np.int64(-1)
    ledger = np.int64(load_int64(data, at + 4))
    if ledger < 0:
        return span if ledger == -1 and not is_journal else np.int64(0)
    entry = np.int64(load_int64(data, at + 12))
    if entry < 0 or size < 32:
        return span if is_journal and _is_special(data, at, size, entry) else np.int64(0)
    # A repair of BookKeeper writes copies with the LAC of that time, which may be greater than the entry's id.
    if load_int64(data, at + 20) >= -1 and load_int64(data, at + 28) >= 0:
        return span
    return np.int64(0)


@inner_kernel
def _past_padding(data, at, most_bytes, is_end, is_journal):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the position after padding that begins here (``at`` if none does), and whether the data ends in it.

    Sizes are less than 2^24, so their first byte is 0: up to three of the zeros belong to a record that begins with them. A walk that stops
    among zeros leaves some of them, so that the next window can decide where they end.
    """
    if data[at] == 0xF0 and not is_journal:
        end = (at // 4096 + 1) * 4096
        i = at
        while i < min(end, data.size) and data[i] == 0xF0:
            i += 1
        return (end, False) if i == end else (at, i == data.size)
    behind = _zeros_end(data, at)
    if behind == data.size:
        return (at, True) if is_end else (max(at, behind - _ZEROS_LEFT), True)
    if behind - at < 4:
        return at, False
    for i in range(behind - 3, behind + 1):
        span = _span(data, i, most_bytes, is_end, is_journal)
        if span != 0:
            return (i, False) if span > 0 else (max(at, behind - _ZEROS_LEFT), True)
    return behind, False


@inlined_kernel
def _leads_on(data, at, most_bytes, is_end, is_journal):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return whether a record begins here with a valid successor (the end, padding, or another record): 1, 0, or -1 if unknown.

    A journal's padding is not such a record: many numbers contain its mark and zeros.
    """
    if is_journal and data[at] == 0xFF:
        return np.int64(0)
    span = _span(data, at, most_bytes, is_end, is_journal)
    if span <= 0:
        return span
    at += span
    if at >= data.size - 4:
        return np.int64(1 if is_end else -1)
    if (data[at] == 0xF0 and not is_journal) or load_uint32(data, at) == 0:  # type: ignore[call-arg]
        return np.int64(1)
    return _span(data, at, most_bytes, is_end, is_journal)


@inner_kernel
def _search(data, at, most_bytes, is_end, is_journal):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the first position from ``at`` on with a record that leads on, and True; or the position to stop at, and False."""
    while at < data.size:
        leads = _leads_on(data, at, most_bytes, is_end, is_journal)
        if leads != 0:
            return at, leads > 0
        at += 1
    return at, False


@inlined_kernel
def _note_entry(data, at, end, rows, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill a row if the record up to ``end`` is an entry; return the number of rows filled."""
    ledger = np.int64(load_int64(data, at + 4))  # type: ignore[call-arg]
    entry = np.int64(load_int64(data, at + 12))
    if ledger < 0 or entry < 0:
        return 0
    rows[count, 0] = at + 4
    rows[count, 1] = end - at - 4
    rows[count, 2] = ledger
    rows[count, 3] = entry
    return 1


@inner_kernel
def _asked_end(data, at, most_bytes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the end of the entry by its digest, -1 if none fits, and the bytes read for that."""
    limit = min(data.size, at + most_bytes)
    if not has_header(data, at):
        return np.int64(-1), np.int64(_LEAST_ASKED)
    end = fitting_end(data, at, limit)
    # Two kinds of digests.
    return end, np.int64(max(_LEAST_ASKED, end - at if end >= 0 else 2 * (limit - at)))


@inner_kernel
def _end_behind_zeros(data, zeros, at, most_bytes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return start and end of the record with a wrong size, -1 and -1 if no digest fits; and the bytes read for that.

    No record begins at ``at``. All bytes from ``zeros`` to it are zero: some may be the size, and the id of a ledger.
    """
    asked = np.int64(0)
    for place in range(max(zeros, at - _ZEROS_OF_ENTRY), at + 1):
        end, cost = _asked_end(data, place + 4, most_bytes)
        asked += cost
        if end >= 0:
            return np.int64(place), end, asked
    return np.int64(-1), np.int64(-1), asked


@inner_kernel
def _is_sound(data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return whether an entry begins here, with its size, whose digest fits."""
    return at + 4 <= data.size and is_fitting(data, at + 4, at + 4 + np.int64(load_uint32(data, at)))  # type: ignore[call-arg]


@inlined_kernel
def _note_lie(data, at, end, rows, gaps, count, broken):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill a row for an entry with a wrong size, and a gap for the size; return the number of rows filled."""
    gaps[broken, 0] = at
    gaps[broken, 1] = at + 4
    return _note_entry(data, at, end, rows, count)


@inner_kernel
def _lying_entry(data, last, before, most_bytes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return start and end of the one of the last two entries that has a wrong size, -1 and -1 if none has; and the bytes read for that.

    The last entry may only be bytes of the one before.
    """
    end, asked = _asked_end(data, last + 4, most_bytes)
    if end >= 0:
        return last, end, asked
    if before >= 0 and not is_fitting(data, before + 4, last):
        end, cost = _asked_end(data, before + 4, most_bytes)
        asked += cost
        if end >= 0:
            return before, end, asked
    return np.int64(-1), np.int64(-1), asked


@inner_kernel
def _lying_size(data, at, behind, is_cut, last, before, most_bytes, is_end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Check digests where no record begins; ``last`` is the entry that ends there, -1 without one, ``behind`` the end of padding.

    Return start and end of an entry with a wrong size; the position to stop at, if bytes after the window decide; each -1 without one; and
    the bytes of digest checks.
    """
    asked = np.int64(0)
    if last >= 0 and not is_fitting(data, last + 4, at):
        if not is_end and last + 4 + most_bytes > data.size:
            return np.int64(-1), np.int64(-1), before if before >= 0 else last, asked
        begin, end, asked = _lying_entry(data, last, before, most_bytes)
        if end >= 0:
            return begin, end, np.int64(-1), asked
    # A record found after zeros may be numbers of an entry whose size is zero.
    if is_cut or _is_sound(data, behind):
        return np.int64(-1), np.int64(-1), np.int64(-1), asked
    if not is_end and behind + 4 + most_bytes > data.size:
        return np.int64(-1), np.int64(-1), max(at, behind - _ZEROS_LEFT), asked
    begin, end, cost = _end_behind_zeros(data, at, behind, most_bytes)
    return begin, end, np.int64(-1), asked + cost


@kernel
def _walk(data, most_bytes, is_end, is_journal, state, rows, gaps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0912, PLR0915, PLR0917, C901
    """Fill rows and gaps from ``state`` on, and advance it; return the number of rows and of gaps."""
    at, filled, is_lost, asked, last, last_end, filled_last, before, filled_before = state
    count = broken = 0
    while at < data.size and count < rows.shape[0] and broken < gaps.shape[0]:
        if not is_lost:
            span = _span(data, at, most_bytes, is_end, is_journal)
            if span > 0:
                if is_journal and data[at] == 0xFF:
                    at += span
                else:
                    # Loaded again, so that the position of the next record depends on its size alone.
                    end = at + 4 + np.int64(load_uint32(data, at))  # type: ignore[call-arg]
                    if _note_entry(data, at, end, rows, count):
                        count += 1
                        before, filled_before = (last, filled_last) if last_end == at else (np.int64(-1), filled_last)
                        last, last_end, filled_last = at, end, filled
                    at = end
                filled = at
                continue
            if last_end != at:
                last = np.int64(-1)
            filled_back = filled if last < 0 else filled_before if before >= 0 else filled_last
            if span < 0:
                if last >= 0:
                    at, filled = before if before >= 0 else last, filled_back
                break
            behind, is_cut = _past_padding(data, at, most_bytes, is_end, is_journal)
            if asked < _MOST_ASKED and (data[at] != 0xF0 or behind == at):
                begin, end, stop, cost = _lying_size(data, at, behind, is_cut, last, before, most_bytes, is_end)
                asked += cost
                if stop >= 0:
                    at, filled = stop, filled_back if stop < at else filled
                    break
                if end >= 0:
                    # The last entry was a part of the one before.
                    count -= 1 if begin < last and count > 0 else 0
                    count += _note_lie(data, begin, end, rows, gaps, count, broken)
                    broken += 1
                    last, at, filled = np.int64(-1), end, end
                    continue
            if behind > at or is_cut:
                at = behind
                if is_cut:
                    break
                continue
        found, leads = _search(data, at if is_lost else at + 1, most_bytes, is_end, is_journal)
        is_lost = not leads
        last = np.int64(-1)
        if found > at:
            gaps[broken, 0] = at
            gaps[broken, 1] = found
            broken += 1
            at = filled = found
        if is_lost:
            break
    state[:] = at, filled, is_lost, asked, last, last_end, filled_last, before, filled_before
    return count, broken
