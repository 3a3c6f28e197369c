"""The plots of the overview, drawn by matplotlib as SVG with the colours of the page's theme."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from markupsafe import Markup
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

INK, LINE, MUTED, A, B, PASSED, FAILED, MISSING = (f"#0{n}0{n}0{n}" for n in range(1, 9))
_COLOURS = dict(
    zip(
        (INK, LINE, MUTED, A, B, PASSED, FAILED, MISSING),
        (
            "currentColor",
            *(f"var(--{name})" for name in ("line", "muted", "series-a", "series-b", "pass", "fail", "missing")),
        ),
        strict=True,
    )
)
"""Placeholder colours used by matplotlib, and the CSS values that replace them."""

MAX_DOTS = 2000
_WIDTH = 4.7  # inches; 72 units of the SVG each
_STYLE: Mapping[Any, Any] = {  # the type stubs accept only literal names
    "svg.fonttype": "none",
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # phase names are untrusted
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.color": LINE,
    "ytick.labelcolor": INK,
    "ytick.left": False,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}
_LABEL = 24  # characters


@attrs.frozen(kw_only=True)
class Rate:
    """A pass rate with its interval, and its bounds for missing attempts. All values are between 0 and 1."""

    name: str
    rate: float
    low: float | None
    high: float | None
    worst: float | None
    best: float | None


def rates(rows: Sequence[Rate]) -> Markup:
    """A dot per run with its interval, and a shaded range for missing attempts."""
    with _drawing("rates", len(rows)) as (figure, axes):
        for y, (row, colour) in enumerate(zip(rows, (A, B), strict=False)):
            if row.worst is not None and row.best is not None and row.worst < row.best:
                axes.plot([row.worst, row.best], [y, y], color=MISSING, linewidth=7, alpha=0.25, solid_capstyle="butt")
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [y, y], color=colour, linewidth=2)
                axes.plot([row.low, row.high], [y, y], color=colour, marker="|", markersize=9, linestyle="none")
            axes.plot([row.rate], [y], color=colour, marker="o", markersize=7)
            axes.annotate(f"{row.rate:.1%}", (row.rate, y), (0, 8), textcoords="offset points", ha="center")
        axes.set_xlim(-0.03, 1.03)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
        _set_names(axes, [row.name for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.6)
    return figure.svg


def difference(value: float, low: float, high: float, bounds: Sequence[float], margin: float | None = None) -> Markup:
    """The difference between two pass rates with its interval, relative to no difference.

    Args:
        value: the difference, between -1 and 1.
        low: the lower end of its interval.
        high: the upper end of its interval.
        bounds: the differences in the worst and the best case, if attempts are missing.
        margin: the largest accepted decrease, such as 0.05. It is drawn as a line.
    """
    with _drawing("difference", 1) as (figure, axes):
        axes.axvline(0, color=INK, linewidth=1)
        if margin is not None:
            axes.axvline(-margin * 100, color=FAILED, linewidth=1.2, linestyle="--")
            axes.annotate(
                f"margin {margin * 100:g}",
                (-margin * 100, 0.42),
                (-3, 0),
                textcoords="offset points",
                ha="right",
                fontsize=8,
            )
        colour = PASSED if low > 0 else FAILED if high < 0 else INK
        if bounds and min(bounds) < max(bounds):
            ends = [100 * min(bounds), 100 * max(bounds)]
            axes.plot(ends, [0, 0], color=MISSING, linewidth=9, alpha=0.25, solid_capstyle="butt")
        axes.plot([100 * low, 100 * high], [0, 0], color=colour, linewidth=2)
        axes.plot([100 * low, 100 * high], [0, 0], color=colour, marker="|", markersize=9, linestyle="none")
        axes.plot([100 * value], [0], color=colour, marker="o", markersize=7)
        axes.annotate(f"{100 * value:+.1f}", (100 * value, 0), (0, 8), textcoords="offset points", ha="center")
        reach = 110 * max(abs(low), abs(high), *map(abs, bounds), margin or 0, 0.02)
        axes.set_xlim(-reach, reach)
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("percentage points: A is better to the left, B to the right")
        axes.set_yticks([])
        axes.set_ylim(-0.6, 0.8)
    return figure.svg


def bars(
    name: str,
    groups: Sequence[str],
    series: Sequence[tuple[str, Sequence[float | None]]],
    unit: str,
    colours: Sequence[str | Sequence[str]] = (A, B),
) -> Markup:
    """Horizontal bars, one per group and series, each labeled with its value.

    Args:
        name: a unique name, used to make the ids in the SVG unique.
        groups: names of the groups, from top to bottom.
        series: name and values of each series, one value per group; ``None`` draws no bar.
        unit: the label of the axis.
        colours: one colour, or one colour per bar, for each series.
    """
    height = 0.72 / len(series)
    with _drawing(name, len(groups) * (1 + 0.55 * (len(series) - 1))) as (figure, axes):
        all_values = [value for _, values in series for value in values if value is not None]
        largest = max(all_values, default=0) or 1
        for number, ((letter, values), colour) in enumerate(zip(series, colours, strict=False)):
            bar_colours = [colour] * len(values) if isinstance(colour, str) else colour
            for group, (value, bar_colour) in enumerate(zip(values, bar_colours, strict=True)):
                if value is None:
                    continue
                y = group + (number - (len(series) - 1) / 2) * height
                axes.barh(y, value, height=height * 0.86, color=bar_colour)
                text = f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"
                axes.annotate(
                    f"{text} {letter}".strip(), (value, y), (4, 0), textcoords="offset points", va="center", fontsize=8
                )
        axes.set_xlim(0, largest * 1.16)
        axes.set_xlabel(unit)
        axes.locator_params(axis="x", nbins=5)
        if all(value == int(value) for value in all_values):
            axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        _set_names(axes, groups)
        axes.set_ylim(len(groups) - 0.5, -0.5)
    return figure.svg


def dots(rows: Sequence[tuple[str, str, Sequence[float]]], unit: str) -> Markup:
    """A row of dots per outcome, one dot per attempt, with a bar at the median.

    Args:
        rows: name, colour and values of each row.
        unit: the label of the axis.
    """
    with _drawing("dots", len(rows)) as (figure, axes):
        all_values = [value for _, _, values in rows for value in values]
        low, high = min(all_values), max(all_values)
        if low > 0 and high / low >= 30:
            axes.set_xscale("log")
        else:
            axes.set_xlim(-high * 0.04, high * 1.06)
            axes.locator_params(axis="x", nbins=5)
        for y, (_, colour, values) in enumerate(rows):
            shown = _thinned(sorted(values))
            ys = [y + ((number * 0.618) % 1 - 0.5) * 0.5 for number in range(len(shown))]  # spread to avoid overlap
            axes.plot(shown, ys, color=colour, marker="o", markersize=4.5, alpha=0.6, linestyle="none", mew=0)
            if len(values) > 1:
                axes.plot([_median(values)] * 2, [y - 0.38, y + 0.38], color=INK, linewidth=1.6)
        axes.set_xlabel(unit)
        _set_names(axes, [name for name, _, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
    return figure.svg


@attrs.define
class _Drawn:
    svg: Markup = attrs.field(factory=Markup)


@contextmanager
def _drawing(name: str, rows: float) -> Iterator[tuple[_Drawn, Axes]]:
    """A figure with space for the given number of rows. Output is deterministic, and ids depend on the name."""
    # Based on matplotlib's defaults, ignoring the user's configuration.
    with style.context(["default", {**_STYLE, "svg.hashsalt": f"agentbench {name}"}]):
        figure = Figure(figsize=(_WIDTH, 0.75 + 0.36 * max(rows, 1.5)), layout="constrained")
        drawn = _Drawn()
        yield drawn, figure.add_subplot()
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        drawn.svg = _inline(out.getvalue())


def _inline(document: str) -> Markup:
    """Convert an SVG document to an inline element without prolog, metadata or styles, using the theme's colours."""
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    svg = re.sub(r'^<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true" focusable="false">', svg)
    svg = re.sub(r"((?:fill|stroke|stop-color): ?)(#0[1-8]0[1-8]0[1-8])", lambda m: m[1] + _COLOURS[m[2]], svg)
    svg = re.sub(r"(font: [\d.]+px )[^;\"]*", r"\1var(--sans)", svg)
    return Markup(svg)  # noqa: S704 - matplotlib escapes text, which is ASCII, see _set_names


def _set_names(axes: Axes, names: Iterable[str]) -> None:
    shown = [name if len(name) <= _LABEL else f"{name[:_LABEL]}..." for name in names]
    # ASCII only, to avoid warnings for missing glyphs, and bidirectional characters.
    labels = [
        "".join(c if c.isprintable() else "?" for c in name).encode("ascii", "replace").decode() for name in shown
    ]
    axes.set_yticks(range(len(labels)), labels)


def _thinned(values: Sequence[float]) -> Sequence[float]:
    """All values, or every nth one if there are more than ``MAX_DOTS``. The values are sorted."""
    step = max(1, -(-len(values) // MAX_DOTS))
    return values[::step]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
