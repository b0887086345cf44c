"""A simulation as a picture: what is stored where, what is uploaded, what waits, what is asked of the store."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerfs.errors import InvalidOptionError
from ledgerfs.lifecycle.simulation.columns import Floats
from ledgerfs.lifecycle.simulation.simulation import DAY_S, Simulated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = (".svg", ".png")
_HOT, _COLD, _WITHOUT, _RATE, _WRITTEN, _BACKLOG = "#d1495b", "#2f6fab", "#8d8d8d", "#2f6fab", "#8d8d8d", "#edae49"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_MOST_DAYS_BY_HOURS = 7
"""Means of hours of a longer time would be one thick line."""
_STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.fonttype": "none",
    # Two pictures of the same are the same bytes.
    "svg.hashsalt": "ledgerfs",
}


def require_plotting(path: Path) -> None:
    """Raise `InvalidOptionError` for a file of another kind than `KINDS`, or if nothing here can draw."""
    if path.suffix.lower() not in KINDS:
        raise InvalidOptionError("a plot is written to a file that ends with .svg or .png", key=str(path))
    try:
        import matplotlib  # noqa: F401, ICN001  (an extra, and slow to import)
    except ImportError as error:
        raise InvalidOptionError("plots need matplotlib: pip install 'ledgerfs[plot]'", key=str(path)) from error


def write_plot(found: Simulated, path: Path, title: str) -> None:
    """Write a picture, SVG or PNG by the file's ending; raises as `require_plotting`, and `OSError`."""
    require_plotting(path)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(10, 11), layout="constrained")
        FigureCanvasAgg(figure)
        # Names of files are no formulas.
        figure.suptitle(title.replace("$", r"\$"), x=0.01, ha="left", fontsize=13)
        panels = figure.subplots(4, 1, sharex=True, height_ratios=[2.2, 1.2, 1, 1])
        days = found.times / DAY_S
        _draw_stored(panels[0], found, days)
        _draw_uploads(panels[1], found, days)
        _draw_backlog(panels[2], found, days)
        _draw_requests(panels[3], found)
        panels[3].set_xlabel("days from the dump")
        panels[3].set_xlim(0, float(days[-1]))
        kind = path.suffix.lower().removeprefix(".")
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}
        figure.savefig(path, format=kind, dpi=120, metadata=metadata)


def _draw_stored(panel: "Axes", found: Simulated, days: Floats) -> None:
    scale, unit = _scaled(found.hot, found.cold, found.hot_without)
    panel.plot(
        days, found.hot_without / scale, color=_WITHOUT, ls="--", lw=1.4, label="hot, if nothing more was offloaded"
    )
    panel.plot(days, found.hot / scale, color=_HOT, lw=2, label="hot: on bookies, each copy counted")
    panel.plot(days, found.cold / scale, color=_COLD, lw=2, label="cold: in the store")
    _finish(panel, "What is stored", unit)
    panel.legend(loc="upper left")


def _draw_uploads(panel: "Axes", found: Simulated, days: Floats) -> None:
    is_long = days[-1] > _MOST_DAYS_BY_HOURS
    rows = [0, *found.rows_of_days()] if is_long else list(range(days.size))
    passed = np.diff(found.times[rows])
    sent, written = np.diff(found.sent[rows]) / passed, np.diff(found.written[rows]) / passed
    scale, unit = _scaled(sent, written, found.highest_rates)
    panel.fill_between(days, found.highest_rates / scale, color=_RATE, lw=0, alpha=0.2, label="highest of an hour")
    panel.stairs(sent / scale, days[rows], color=_RATE, lw=1.8, label=f"mean of {'a day' if is_long else 'an hour'}")
    panel.stairs(written / scale, days[rows], color=_WRITTEN, ls="--", lw=1.4, label="written to topics")
    _finish(panel, "What is uploaded", f"{unit}/s")
    panel.legend(loc="upper right", ncols=3)


def _draw_backlog(panel: "Axes", found: Simulated, days: Floats) -> None:
    scale, unit = _scaled(found.backlog)
    panel.fill_between(days, found.backlog / scale, color=_BACKLOG, alpha=0.8, lw=0)
    _finish(panel, "What is due and waits", unit)


def _draw_requests(panel: "Axes", found: Simulated) -> None:
    rows = [0, *found.rows_of_days()]
    ends = found.times[rows] / DAY_S
    panel.bar(ends[:-1], np.diff(found.requests[rows]), np.diff(ends), align="edge", color=_COLD, alpha=0.8, ec="white")
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _finish(panel, "Requests that write to the store", "a day")


def _finish(panel: "Axes", title: str, unit: str) -> None:
    panel.set_title(title, loc="left", fontsize=11)
    panel.set_ylabel(unit)
    panel.set_ylim(bottom=0)
    low, high = panel.get_ylim()
    panel.set_ylim(low, high * 1.15)


def _scaled(*values: Floats) -> tuple[float, str]:
    """Return in which unit to show values, and its bytes."""
    most = max(float(one.max(initial=0.0)) for one in values)
    power = min(len(_UNITS) - 1, max(0, int(np.log2(max(most, 1.0)) / 10)))
    return float(1 << (10 * power)), _UNITS[power]
