"""Figures: drawn without a display, written whole, and showing what they are given."""

import cv2
import numpy as np
import pytest

from aerial_vpr_cl.evaluation import plots
from aerial_vpr_cl.evaluation.metrics import MeanStd

RNG = np.random.default_rng(0)
METHODS = ["FT", "Random", "DBS-Hybrid"]
MISSIONS = ["one", "two", "three"]
ACCURACIES = RNG.uniform(size=(4, 3))


def tile():
    return RNG.integers(0, 255, (16, 16, 3)).astype(np.uint8)


def case():
    predicted = {"Random": tile(), "DBS-Hybrid": tile()}
    return plots.QualitativeCase("(a) VIS", tile(), tile(), predicted, {"Random": "51 m"}, {"Random": True})


FIGURES = {
    "curves": lambda: plots.metric_over_missions({m: RNG.uniform(size=(3, 4)) for m in METHODS}, MISSIONS, "C1"),
    "one seed": lambda: plots.metric_over_missions(
        {m: RNG.uniform(size=2) for m in METHODS}, MISSIONS, "C3", first_step=2
    ),
    "capacity": lambda: plots.capacity_sensitivity(
        {"FAA": {"DBS": {100: MeanStd(0.4, 0.01, 3), 200: MeanStd(0.5, float("nan"), 1)}}, "C1": {}}
    ),
    "errors": lambda: plots.error_distribution({m: RNG.exponential(500, 50) for m in METHODS}),
    "matrix": lambda: plots.accuracy_heat_map(ACCURACIES, MISSIONS, "DBS-Hybrid"),
    "cases": lambda: plots.qualitative_panels([case(), case()]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_written_and_shows_something(name, tmp_path):
    plots.save(FIGURES[name](), tmp_path / "figure.png")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]
    assert cv2.imread(str(tmp_path / "figure.png")).std() > 10


def test_figures_can_be_vector_graphics(tmp_path):
    plots.save(FIGURES["matrix"](), tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_the_curve_of_errors_passes_the_recalls():
    axes = plots.error_distribution({"x": [10.0, 40.0, 150.0, 9000.0]}).axes[0]
    metres, share = axes.get_lines()[0].get_data()
    assert [share[np.searchsorted(metres, limit, side="right") - 1] for limit in (50, 300)] == [0.5, 0.75]


def test_the_matrix_is_drawn_with_its_percentages():
    axes = plots.accuracy_heat_map(ACCURACIES, MISSIONS).axes[0]
    assert [text.get_text() for text in axes.texts] == [f"{100 * value:.0f}" for value in ACCURACIES.ravel()]


def test_curves_are_those_of_the_methods_means_with_one_point_a_mission():
    runs = {method: RNG.uniform(size=(3, 4)) for method in METHODS}
    axes = plots.metric_over_missions(runs, MISSIONS, "C1").axes[0]
    curves = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert list(curves) == METHODS
    for method in METHODS:
        np.testing.assert_allclose(curves[method], runs[method].mean(axis=0))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0  base", "1  one", "2  two", "3  three"]


def test_capacities_stand_in_one_panel_a_metric_in_ascending_order():
    values = {"DBS": {200: MeanStd(0.5, 0.02, 3), 100: MeanStd(0.4, 0.01, 3)}}
    figure = plots.capacity_sensitivity({"FAA": values, "C1": values})
    assert [axes.get_title() for axes in figure.axes] == ["FAA", "C1"]
    line = figure.axes[0].containers[0].lines[0]
    assert line.get_ydata().tolist() == [0.4, 0.5]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["100", "200"]


def test_qualitative_panels_show_query_truth_and_predictions_row_by_row():
    cases = [case(), case(), case()]
    grid = np.array(plots.qualitative_panels(cases).axes).reshape(3, 4)
    assert [axes.get_title() for axes in grid[0]] == ["Airborne query", "True tile", "Random", "DBS-Hybrid"]
    for row, shown in zip(grid, cases):
        images = [axes.get_images()[0].get_array() for axes in row]
        expected = [shown.query, shown.true_tile, *shown.predicted.values()]
        assert all(np.array_equal(image, tile) for image, tile in zip(images, expected))
        assert row[2].get_xlabel() == "51 m" and row[2].spines["left"].get_linewidth() == 3
