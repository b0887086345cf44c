"""The records of an entry log, and of a journal: ``int32 size | entry``, one after the other (``docs/formats/entry-logs.md``).

One kernel walks a file, which touches nothing but headers. What is no record is a gap with its place, and the walk goes on where two
records follow each other. Padding that writers leave is no damage: zeros in both kinds of files, 0xF0 up to a multiple of 4096 in logs,
records of their own in journals.

A size that is damaged hides what lies behind it, up to megabytes of sound entries if it is too large. So where a record is followed by
none, the digests tell which of the two is wrong, and how long that one is (`entry_ends.py`): the entry is told
with the length that fits, and the four bytes of its size as what is no record.

A file may be walked in windows, each a front part of what is left of it. Nothing is decided that bytes behind the window may change: the
walk stops before it, and before the two records that lead there. So all that it knows at a place is whether it is searching, and about how
many bytes it asked digests, and windows find what one walk over the file finds.
"""

from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.kernel import inlined_kernel, inner_kernel, kernel
from ledgerfs.formats.memory_loads import load_int32, load_int64, load_uint32
from ledgerfs_cluster.formats.bookkeeper.entry_ends import fitting_end, has_header, is_fitting

MOST_ENTRY_BYTES = 5_253_120 + 1024
"""``nettyMaxFrameSizeBytes`` of Pulsar's bookies, and some more; what is larger is no entry, unless its reader knows of larger ones."""
WINDOW_ALIGNMENT = 4096
"""Windows begin at multiples of it in the file."""
_COLUMNS, _GAP_COLUMNS = 4, 2
_MOST_ASKED = 256 << 20
"""Bytes of a file that digests are asked about, which takes some seconds: what is garbage all over is only searched."""
_LEAST_ASKED = 256
"""What a question costs at least."""
_AT, _FILLED, _IS_LOST, _ASKED = range(4)
_STATE = 9
"""What a walk knows: where it goes on, how far it is filled, whether it is searching, about how many bytes digests were asked; where the
last entry begins, with its size, and ends, and how far it was filled before that; where the one before that begins, if that ends there,
else -1, and the same of it."""
_ZEROS_OF_ENTRY = 11
"""At most, of a size that is zero, and a ledger's id; what ids are 0 begin with is not told from padding."""
_ZEROS_LEFT = 16
_FIRST_ROWS = 1 << 16
_MOST_GAPS = 10_000
"""Rows that are made room for at once."""


def least_window_bytes(most_bytes: int = MOST_ENTRY_BYTES) -> int:
    """Return how many bytes a window has, whose ``start`` is less than `WINDOW_ALIGNMENT`, that is always gone on in: ``end > start``."""
    return 3 * (most_bytes + 4) + 2 * WINDOW_ALIGNMENT


@dataclass(frozen=True, slots=True)
class LogRecords:
    """The entries of a log or a journal, or of a window of one, in the order of their places, which are those in the bytes at hand.

    Attributes
    ----------
    starts, sizes
        Where each entry begins, behind the size, and its bytes; shape (entries,).
    ledger_ids, entry_ids
        As each entry has them; its digest says whether that is so.
    gaps
        What is no record, as (start, end); shape (gaps, 2). The last one may be a record that the log ends in the middle of. One that is
        still searched over at the end of a window is told as far as that, and touches the first one of the next window.
    end
        Where the next window has to go on; in the last one, behind the last record, or the last byte that was looked at.
    filled_to
        Behind the last record or gap: from there to ``end`` all is padding, or where the walk began if all of it is. A log that grows is
        gone on with there, since bookies make files longer with zeros, and write over these.
    ends_in_gap, asked
        Whether it was searching when it stopped, and how many bytes digests were asked about so far: the next window has to be told.

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
    """Find the records of a log, or of a file of a journal, from a place on: the first one's, or where an earlier scan ended.

    ``data`` is all of the log, or with ``is_end=False`` a window of it: it begins at a multiple of `WINDOW_ALIGNMENT` of the log, since
    padding ends at such places, and a record that may reach out of it is left to the next window. That one begins at the last multiple that
    is not behind ``end``, with ``in_gap`` and ``asked`` as this one has ``ends_in_gap`` and ``asked``. Nothing may be found in a window
    of less than `least_window_bytes`: then it has to be larger.

    Special records (maps and fillers, of ledger -1) are passed over. In a journal a size of 0 is where the bookie had not written yet; what
    follows such zeros nevertheless is found. Raises nothing: what is wrong is told.
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
        # The last records are left to the next window, which may tell that their sizes are wrong.
        table = table[table[:, 0] < at]
    starts, sizes, ledger_ids, entry_ids = (np.ascontiguousarray(table[:, column]) for column in range(_COLUMNS))
    gaps = np.concatenate(holes)
    return LogRecords(
        starts, sizes, ledger_ids, entry_ids, gaps, at, filled_to, bool(state[_IS_LOST]), int(state[_ASKED])
    )


@inner_kernel
def _zeros_end(data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the place of the first byte from one on that is not zero."""
    while at + 8 <= data.size and load_int64(data, at) == 0:  # type: ignore[call-arg]
        at += 8
    while at < data.size and data[at] == 0:
        at += 1
    return at


@inner_kernel
def _is_special(data, at, size, entry):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether a record of a journal is about a ledger: its key, a fence, or what is confirmed of it."""
    if entry == -0x2000 or entry == -0x4000:  # noqa: PLR1714  (a tuple is slower)
        return size == 16
    if (entry == -0x1000 or entry == -0x8000) and size >= 20:  # noqa: PLR1714
        return size == 20 + np.int64(load_int32(data, at + 20))  # type: ignore[call-arg]
    return False


@inner_kernel
def _padding_span(data, at, most_bytes, is_end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the bytes of a journal's padding: its mark, how many bytes follow, and these, all zeros; 0 if it is none, -1 if unknown.

    What is not zero is told as a gap rather than passed over, since a length that lies would hide entries.
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
    """Return the bytes of the record that may begin here, all of it in the file: 0 if none does, -1 if bytes behind the window tell.

    It is judged by its size, and by the numbers of the entry. Entries have a header of 32 bytes; in logs, records of ledger -1 (maps,
    fillers) have 16 at least.
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
    # A repair of BookKeeper's writes copies with what is confirmed of the ledger by then: behind the entry itself.
    if load_int64(data, at + 20) >= -1 and load_int64(data, at + 28) >= 0:
        return span
    return np.int64(0)


@inner_kernel
def _past_padding(data, at, most_bytes, is_end, is_journal):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where to go on behind padding that begins here (the place itself if none does), and whether the data ends in it.

    Sizes are less than 2^24, so their first byte is 0: up to three of the zeros belong to a record that begins with them. A walk that stops
    among zeros leaves some of them, by which it is known where it goes on what these were.
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
    """Whether a record begins here that may be followed by what is behind it (the end, padding, or another record): 1, 0, or -1 if unknown.

    A journal's padding is no such record: its mark, and zeros, are found in many numbers.
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
    """Return the first place from one on where a record is that leads on, and True; or where the search has to stop, and False."""
    while at < data.size:
        leads = _leads_on(data, at, most_bytes, is_end, is_journal)
        if leads != 0:
            return at, leads > 0
        at += 1
    return at, False


@inlined_kernel
def _note_entry(data, at, end, rows, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill a row if the record, which ends there, is an entry; return how many it is."""
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
    """Return where the entry that begins there ends by its digest, -1 if none tells, and how many bytes were looked at for that."""
    limit = min(data.size, at + most_bytes)
    if not has_header(data, at):
        return np.int64(-1), np.int64(_LEAST_ASKED)
    end = fitting_end(data, at, limit)
    # Two kinds of digests.
    return end, np.int64(max(_LEAST_ASKED, end - at if end >= 0 else 2 * (limit - at)))


@inner_kernel
def _end_behind_zeros(data, zeros, at, most_bytes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where the record begins whose size is wrong, and where it ends, -1 and -1 if no digest tells; and what that cost.

    No record begins at ``at``. From ``zeros`` on up to it all is zero: some of it may be the size, and the number of a ledger.
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
    """Whether an entry begins at a place, with its size, whose digest fits."""
    return at + 4 <= data.size and is_fitting(data, at + 4, at + 4 + np.int64(load_uint32(data, at)))  # type: ignore[call-arg]


@inlined_kernel
def _note_lie(data, at, end, rows, gaps, count, broken):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill a row for an entry that ends otherwise than its size says, and a gap for the size; return how many rows it is."""
    gaps[broken, 0] = at
    gaps[broken, 1] = at + 4
    return _note_entry(data, at, end, rows, count)


@inner_kernel
def _lying_entry(data, last, before, most_bytes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return which of the last two entries has a wrong size, and where it ends, -1 and -1 if none tells; and what that cost.

    The last one may be none, but bytes of the one before.
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
    """Ask digests at a place where no record begins; ``last`` is the entry that ends there, -1 without one, ``behind`` the end of padding.

    Return where an entry begins whose size is wrong, and where it ends; where the walk has to stop, if bytes behind the window tell that;
    each -1 if there is none; and how many bytes digests were asked about.
    """
    asked = np.int64(0)
    if last >= 0 and not is_fitting(data, last + 4, at):
        if not is_end and last + 4 + most_bytes > data.size:
            return np.int64(-1), np.int64(-1), before if before >= 0 else last, asked
        begin, end, asked = _lying_entry(data, last, before, most_bytes)
        if end >= 0:
            return begin, end, np.int64(-1), asked
    # What is found behind zeros may be numbers of an entry whose size is zero.
    if is_cut or _is_sound(data, behind):
        return np.int64(-1), np.int64(-1), np.int64(-1), asked
    if not is_end and behind + 4 + most_bytes > data.size:
        return np.int64(-1), np.int64(-1), max(at, behind - _ZEROS_LEFT), asked
    begin, end, cost = _end_behind_zeros(data, at, behind, most_bytes)
    return begin, end, np.int64(-1), asked + cost


@kernel
def _walk(data, most_bytes, is_end, is_journal, state, rows, gaps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0912, PLR0915, PLR0917, C901
    """Fill rows and gaps from where ``state`` is, and move that; return how many rows and gaps there are."""
    at, filled, is_lost, asked, last, last_end, filled_last, before, filled_before = state
    count = broken = 0
    while at < data.size and count < rows.shape[0] and broken < gaps.shape[0]:
        if not is_lost:
            span = _span(data, at, most_bytes, is_end, is_journal)
            if span > 0:
                if is_journal and data[at] == 0xFF:
                    at += span
                else:
                    # Loaded again, so that the place of the next record waits for nothing but its size.
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
                    # What was taken for an entry was a part of the one before.
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
