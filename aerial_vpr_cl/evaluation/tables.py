"""Result tables in the paper's form, as Markdown, CSV and LaTeX, from plain data.

Figures are mean ± sample standard deviation; best, second and third are bold, underlined and italic. They are ranked as
printed: values that read alike share a mark, and a column in which all read alike has none.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from aerial_vpr_cl.evaluation.metrics import MeanStd, over_seeds

ARROWS = {"higher": "↑", "lower": "↓", "": ""}


@dataclass(frozen=True)
class Column:
    """One figure: its name in the results, how it is headed and printed, and which way is better.

    Figures in "%" are shares in the results. Neighbouring columns of one group are printed in one cell: 47.32 / 1.07.
    """

    key: str
    title: str
    better: str = "higher"
    unit: str = "%"
    digits: int = 2
    group: str = ""

    def shown(self, value: float) -> float:
        """The value in the printed unit."""
        return value * 100 if self.unit == "%" else value


@dataclass(frozen=True)
class Panel:
    """Rows that are ranked among each other: figures by row name and column key."""

    rows: Mapping[str, Mapping[str, MeanStd]]
    title: str = ""


@dataclass(frozen=True)
class Table:
    """What is printed; `marks` is how many places are marked in each column (3: best, second, third)."""

    columns: Sequence[Column]
    panels: Sequence[Panel]
    caption: str = ""
    label: str = ""
    marks: int = 3
    corner: str = "Method"


CONTINUAL_COLUMNS = (
    Column("faa", "FAA"),
    Column("bwt", "BWT"),
    Column("fwt", "FWT"),
    Column("af", "AF", "lower"),
    Column("c1", "C1"),
    Column("c2", "C2"),
    Column("c3", "C3"),
)
"""Of `metrics.ContinualSummary`: the paper's table 3."""

LOCALIZATION_COLUMNS = (
    Column("recall_50", "R@50"),
    Column("recall_100", "R@100"),
    Column("recall_200", "R@200"),
    Column("recall_300", "R@300"),
    Column("median_m", "Median", "lower", "m"),
    Column("mean_m", "Mean", "lower", "m"),
    Column("rmse_m", "RMSE", "lower", "m"),
)
"""Of `metrics.ErrorSummary`: the paper's table 4."""

METHOD_TITLES = {
    "ft": "FT",
    "lwf": "DIL-LwF",
    "ft_ex": "FT+EX",
    "er": "DIL-ER",
    "derpp": "DIL-DER++",
    "icarl": "DIL-iCaRL",
    "udil": "UDIL (adapted)",
    "random": "Random",
    "lbs": "LBS",
    "dbs": "DBS",
    "dbs_hybrid": "DBS-Hybrid",
}
"""The paper's names of the methods, in its order."""


def method_title(method: str) -> str:
    """How a method is called in tables: the paper's name, and its options where they are not the usual ones."""
    name, *options = method.split("+")
    return ", ".join([METHOD_TITLES.get(name, name), *options])


def panel_of_runs(runs: Mapping[str, Sequence[Any]], title: str = "") -> Panel:
    """A panel with one row a method from the summaries of its runs, one a seed."""
    return Panel({method_title(name): over_seeds(seeds) for name, seeds in runs.items()}, title)


def panel_of_orders(runs: Mapping[str, Mapping[str, Sequence[Any]]], title: str = "") -> Panel:
    """A panel over mission orders, runs[order][method], with figures named "order.key": see `columns_of_orders`."""
    rows: dict[str, dict[str, MeanStd]] = {}
    for order, methods in runs.items():
        for method, figures in panel_of_runs(methods).rows.items():
            rows.setdefault(method, {}).update({f"{order}.{key}": value for key, value in figures.items()})
    return Panel(rows, title)


def columns_of_orders(orders: Sequence[str], columns: Sequence[Column]) -> tuple[Column, ...]:
    """The same columns for every mission order, one printed cell an order, as in the paper's tables 6 and 7."""
    return tuple(
        replace(column, key=f"{order}.{column.key}", group=order.capitalize()) for order in orders for column in columns
    )


def places(values: Sequence[float], better: str, digits: int, marks: int = 3) -> list[int]:
    """Place of every value as printed: 1, 2, ... up to `marks`, or 0. Ties share a place and use up the next ones."""
    signed = [round(value, digits) * (-1 if better == "lower" else 1) for value in values]
    known = [value for value in signed if not math.isnan(value)]
    if not better or len(set(known)) < 2:
        return [0] * len(signed)
    found = [0 if math.isnan(value) else 1 + sum(other > value for other in known) for value in signed]
    return [place if place <= marks else 0 for place in found]


def markdown(table: Table) -> str:
    """The table as GitHub-flavoured Markdown."""
    marks = {1: "**{}**", 2: "<u>{}</u>", 3: "*{}*"}
    titles = [f"{c.title} {ARROWS[c.better]}".strip() + (f" ({c.unit})" if c.unit else "") for c in table.columns]
    heads = [table.corner, *_merged(table, titles, heading=True)]
    lines = [_pipes(heads), _pipes([":--", *["--:"] * (len(heads) - 1)])]
    for panel in table.panels:
        if panel.title:
            lines.append(_pipes([f"**{panel.title}**", *[""] * (len(heads) - 1)]))
        cells = _cells(table, panel, " ± ", "–", lambda text, place: marks.get(place, "{}").format(text))
        lines += [_pipes([name.replace("|", r"\|"), *row]) for name, row in cells.items()]
    caption = f"{table.caption}\n\n" if table.caption else ""
    return caption + "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """The table as LaTeX in the paper's form; needs booktabs and graphicx."""
    marks = {1: r"\textbf{%s}", 2: r"\underline{%s}", 3: r"\textit{%s}"}
    arrows = {"higher": r" $\uparrow$", "lower": r" $\downarrow$", "": ""}
    titles = [
        _escaped(c.title) + arrows[c.better] + (f" ({_escaped(c.unit)})" if c.unit else "") for c in table.columns
    ]
    heads = [_escaped(table.corner), *_merged(table, titles, heading=True)]
    lines = [r"\begin{table*}[t]", r"\centering"]
    lines += [rf"\caption{{{_escaped(table.caption)}}}"] if table.caption else []
    lines += [rf"\label{{{table.label}}}"] if table.label else []
    lines += [r"\resizebox{\textwidth}{!}{%", rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", r"\toprule"]
    lines.append(" & ".join(heads) + r" \\")
    for panel in table.panels:
        lines.append(r"\midrule")
        if panel.title:
            lines.append(rf"\multicolumn{{{len(heads)}}}{{l}}{{\textbf{{{_escaped(panel.title)}}}}} \\")
        cells = _cells(table, panel, r"$\pm$", "--", lambda text, place: marks.get(place, "%s") % text)
        lines += [" & ".join([_escaped(name), *row]) + r" \\" for name, row in cells.items()]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", "}", r"\end{table*}"]) + "\n"


def comma_separated(table: Table) -> str:
    """The figures as CSV: mean, standard deviation and number of runs of every column, unmarked, to six decimals."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    titles = [f"{c.group} {c.title}".strip() + (f" ({c.unit})" if c.unit else "") for c in table.columns]
    writer.writerow(["Panel", table.corner, *[f"{t}{end}" for t in titles for end in ("", " std", " runs")]])
    for panel in table.panels:
        for name, figures in panel.rows.items():
            row: list[Any] = [panel.title, name]
            for column in table.columns:
                figure = _figure(figures, column)
                row += [_number(column.shown(figure.mean)), _number(column.shown(figure.std)), figure.count]
            writer.writerow(row)
    return text.getvalue()


def _cells(
    table: Table, panel: Panel, plus_minus: str, missing: str, mark: Callable[[str, int], str]
) -> dict[str, list[str]]:
    """Printed and marked cells by row name."""
    rows: dict[str, list[str]] = {name: [] for name in panel.rows}
    for column in table.columns:
        figures = [_figure(row, column) for row in panel.rows.values()]
        means = [column.shown(figure.mean) for figure in figures]
        ranked = places(means, column.better, column.digits, table.marks)
        for cells, figure, mean, place in zip(rows.values(), figures, means, ranked):
            text = missing if math.isnan(mean) else _fixed(mean, column.digits)
            if not math.isnan(figure.std):
                text += plus_minus + _fixed(column.shown(figure.std), column.digits)
            cells.append(mark(text, place))
    return {name: _merged(table, cells) for name, cells in rows.items()}


def _merged(table: Table, cells: Sequence[str], heading: bool = False) -> list[str]:
    """Join the cells of neighbouring columns that belong to one group."""
    merged: list[str] = []
    for group, members in groupby(zip(table.columns, cells), key=lambda pair: pair[0].group):
        texts = [text for _, text in members]
        if not group:
            merged += texts
        else:
            merged.append((f"{group}: " if heading else "") + " / ".join(texts))
    return merged


def _figure(figures: Mapping[str, MeanStd], column: Column) -> MeanStd:
    return figures.get(column.key, MeanStd(math.nan, math.nan, 0))


def _fixed(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not float(text) else text


def _number(value: float) -> Any:
    return "" if math.isnan(value) else round(value, 6)


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {letter: "\\" + letter for letter in "&%$#_{}"}
    return "".join(special.get(letter, letter) for letter in text)
