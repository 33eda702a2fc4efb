"""Tables: the paper's marks from the paper's numbers, and the three formats."""

import csv
import io
import math
from dataclasses import replace

import paper_tables
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.evaluation.metrics import ContinualSummary, MeanStd
from aerial_vpr_cl.evaluation.tables import (
    CONTINUAL_COLUMNS,
    Column,
    Panel,
    Table,
    columns_of_orders,
    comma_separated,
    latex,
    markdown,
    panel_of_orders,
    panel_of_runs,
    places,
)

# Marks printed in the paper against its own numbers: (table, column, method).
MISPRINTED_MARKS = {
    ("RANDOM_C1_C2_C3", 1, "LBS"),
    ("RANDOM_C1_C2_C3", 7, "LBS"),
    ("RANDOM_C1_C2_C3", 9, "DIL-iCaRL"),
}


@pytest.mark.parametrize(
    "name, lower_is_better, marks",
    [
        ("FORWARD", {3}, 3),
        ("ALL_MISSIONS", {4, 5, 6}, 3),
        ("HELD_OUT", {4, 5, 6}, 3),
        ("MODALITIES", {1}, 3),
        ("NAMED_FAA_BWT", set(), 3),
        ("NAMED_C1_C2_C3", set(), 3),
        ("ALLOCATION", {3}, 3),
        ("COMPONENTS", {3}, 2),
        ("CRITERIA", {3}, 3),
        ("RANDOM_FAA_BWT_FWT_AF", set(range(3, 24, 4)), 3),
        ("RANDOM_C1_C2_C3", set(), 3),
    ],
)
def test_best_second_and_third_are_marked_as_in_the_paper(name, lower_is_better, marks):
    table = getattr(paper_tables, name)
    disagreeing = set()
    for k, column in enumerate(zip(*table.values())):
        better = "lower" if k in lower_is_better else "higher"
        ours = places([cell.mean for cell in column], better, 2, marks)
        disagreeing |= {(name, k, method) for method, cell, place in zip(table, column, ours) if cell.rank != place}
    assert disagreeing == {mark for mark in MISPRINTED_MARKS if mark[0] == name}


def test_ties_share_a_place_and_use_up_the_next():
    assert places([5, 5, 4, 3, 2], "higher", 2) == [1, 1, 3, 0, 0]
    assert places([5, 4, 4, 3], "lower", 2) == [0, 2, 2, 1]


def test_values_that_print_alike_are_tied():
    assert places([1.001, 1.002, 0.5], "higher", 2) == [1, 1, 3]


def test_nothing_is_marked_where_nothing_differs_or_no_way_is_better():
    assert places([0, 0, 0], "higher", 2) == [0, 0, 0]
    assert places([7], "higher", 2) == [0]
    assert places([1, 2], "", 2) == [0, 0]


def test_a_missing_value_has_no_place():
    assert places([math.nan, 1, 2], "higher", 2) == [0, 2, 1]


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12), st.integers(1, 3))
def test_lower_mirrors_higher_and_places_follow_the_values(values, marks):
    found = places(values, "higher", 0, marks)
    assert found == places([-value for value in values], "lower", 0, marks)
    assert all(place <= marks for place in found)
    for value, place in zip(values, found):
        if place:
            assert place == 1 + sum(other > value for other in values)


def paper_table() -> Table:
    """Three rows of the paper's table 3 as results."""
    rows = {
        method: {
            column.key: MeanStd(cell.mean / 100, cell.std / 100, 3)
            for column, cell in zip(CONTINUAL_COLUMNS, paper_tables.FORWARD[method])
        }
        for method in paper_tables.FORWARD
    }
    return Table(CONTINUAL_COLUMNS, [Panel(rows)], caption="Forward order, 300 m", label="tab:forward")


def test_markdown_reads_as_the_paper_s_table():
    lines = markdown(paper_table()).splitlines()
    assert lines[0] == "Forward order, 300 m"
    assert lines[2] == "| Method | FAA ↑ (%) | BWT ↑ (%) | FWT ↑ (%) | AF ↓ (%) | C1 ↑ (%) | C2 ↑ (%) | C3 ↑ (%) |"
    assert lines[-1] == (
        "| DBS-Hybrid | **47.32 ± 1.99** | <u>1.07 ± 1.39</u> | *2.60 ± 1.06* | <u>4.37 ± 0.23</u> "
        "| **32.38 ± 0.52** | 46.35 ± 1.64 | **40.11 ± 1.32** |"
    )
    assert len(lines) == 4 + 11


def test_latex_is_the_paper_s_row_to_the_letter():
    text = latex(paper_table())
    assert r"Method & FAA $\uparrow$ (\%) & BWT $\uparrow$ (\%) & FWT $\uparrow$ (\%) & AF $\downarrow$ (\%)" in text
    assert (
        r"DBS-Hybrid & \textbf{47.32$\pm$1.99} & \underline{1.07$\pm$1.39} & \textit{2.60$\pm$1.06} & "
        r"\underline{4.37$\pm$0.23} & \textbf{32.38$\pm$0.52} & 46.35$\pm$1.64 & \textbf{40.11$\pm$1.32} \\"
    ) in text
    assert text.count("{") == text.count("}")


def test_csv_gives_the_numbers_back():
    rows = list(csv.DictReader(io.StringIO(comma_separated(paper_table()))))
    assert [row["Method"] for row in rows] == list(paper_tables.FORWARD)
    assert (
        float(rows[-1]["AF (%)"]) == 4.37 and float(rows[-1]["AF (%) std"]) == 0.23 and rows[-1]["AF (%) runs"] == "3"
    )


def test_names_are_escaped_and_missing_figures_are_dashes():
    columns = [Column("a", "A_1", unit="m"), Column("b", "B", unit="")]
    rows = {"x_y & 5%": {"a": MeanStd(-0.001, math.nan, 1)}, "p|q": {"a": MeanStd(12, math.nan, 1)}}
    table = Table(columns, [Panel(rows, "(a) first")])
    assert r"x\_y \& 5\% & \underline{0.00} & -- \\" in latex(table)
    assert r"\multicolumn{3}{l}{\textbf{(a) first}} \\" in latex(table)
    assert r"| p\|q | **12.00** | – |" in markdown(table)


def test_panels_are_ranked_apart():
    rows = {"one": {"a": MeanStd(0.5, 0.1, 2)}, "two": {"a": MeanStd(0.25, 0.1, 2)}}
    text = markdown(Table([Column("a", "A")], [Panel(rows, "(a)"), Panel(dict(reversed(rows.items())), "(b)")]))
    assert text.count("**50.00 ± 10.00**") == text.count("<u>25.00 ± 10.00</u>") == 2


def test_runs_become_rows_and_orders_share_a_cell():
    run = ContinualSummary(faa=0.5, bwt=-0.1, fwt=0.0, af=0.1, c1=0.3, c2=0.6, c3=0.4)
    better = replace(run, faa=0.6, bwt=0.1)
    panel = panel_of_runs({"random": [run, better], "dbs_hybrid": [better, better]})
    assert list(panel.rows) == ["Random", "DBS-Hybrid"]
    assert panel.rows["Random"]["faa"].mean == pytest.approx(0.55)

    runs = {"forward": {"random": [run], "dbs": [better]}, "backward": {"random": [better], "dbs": [run]}}
    table = Table(columns_of_orders(list(runs), CONTINUAL_COLUMNS[:2]), [panel_of_orders(runs)])
    lines = markdown(table).splitlines()
    assert lines[0] == "| Method | Forward: FAA ↑ (%) / BWT ↑ (%) | Backward: FAA ↑ (%) / BWT ↑ (%) |"
    assert lines[2] == "| Random | <u>50.00</u> / <u>-10.00</u> | **60.00** / **10.00** |"
