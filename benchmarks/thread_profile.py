"""Where all threads of this process spend the processor's time.

cProfile sees one thread; readers are several, and an event loop. So stacks are sampled, and each is given the time that its thread has used
since the sample before, which the kernel counts to the nanosecond. Time that native threads use, such as Arrow's, is in the total only.
"""

import resource
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

_INTERVAL = 0.002
_SHOWN = 25


class ThreadProfile:
    """Samples for as long as a ``with`` lasts; then `show` prints."""

    def __init__(self) -> None:
        self._alone: Counter[str] = Counter()
        self._within: Counter[str] = Counter()
        self._threads: Counter[str] = Counter()
        self._seen: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="profile", daemon=True)
        self._cpu = 0.0

    def __enter__(self) -> Self:
        self._cpu = _cpu()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._cpu = _cpu() - self._cpu

    def show(self) -> None:
        """Print seconds by thread, and by function: in itself, and with all that it calls."""
        print(f"  {self._cpu:.2f} s of the processor, of which by Python's threads:")
        for name, used in self._threads.most_common(12):
            print(f"    {used / 1e9:6.2f} s  {name}")
        for title, table in (("in itself", self._alone), ("with what it calls", self._within)):
            print(f"  by function, {title}:")
            for name, used in table.most_common(_SHOWN):
                print(f"    {used / 1e9:6.2f} s  {name}")

    def _sample(self) -> None:
        while not self._stop.wait(_INTERVAL):
            frames = sys._current_frames()  # noqa: SLF001  (the only way to other threads' stacks)
            for thread in threading.enumerate():
                if thread.native_id is not None and thread is not self._thread:
                    self._count(thread, thread.native_id, frames.get(thread.ident or 0))
            del frames

    def _count(self, thread: threading.Thread, task: int, frame: FrameType | None) -> None:
        try:
            now = int(Path(f"/proc/self/task/{task}/schedstat").read_text().split()[0])
        except OSError:
            return
        used = now - self._seen.get(task, now)
        self._seen[task] = now
        if not used or frame is None:
            return
        self._threads[thread.name.rstrip("0123456789_-")] += used
        self._alone[_name(frame)] += used
        stack: set[str] = set()
        at: FrameType | None = frame
        while at is not None:
            stack.add(_name(at))
            at = at.f_back
        for name in stack:
            self._within[name] += used


def _name(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname}  {'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_firstlineno}"


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
