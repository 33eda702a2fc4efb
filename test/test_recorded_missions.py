"""Two recorded missions give the figures they gave: a change that moves them is seen and explained, or is a mistake."""

from __future__ import annotations

import json

import pytest
from bags.record import FIGURES, NAMES, measure, open_ground

EXACT = ("frames", "modality", "learnable", "refused", "heading_known")


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return open_ground(tmp_path_factory.mktemp("recorded") / "store")


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_mission_gives_the_figures_it_gave(ground, name):
    kept, found = json.loads(FIGURES.read_text())[name], measure(name, ground)
    assert found.keys() == kept.keys(), "run python test/bags/record.py"
    assert {key: found[key] for key in EXACT} == {key: kept[key] for key in EXACT}
    assert found["label_error_m"] == pytest.approx(kept["label_error_m"], abs=0.5)
    assert found["height_m"] == pytest.approx(kept["height_m"], rel=0.01)
    assert found["moved_m"] == pytest.approx(kept["moved_m"], rel=0.01)
    # Of the tracker: other libraries read the JPEGs a little differently, and a fix may come a frame or two later.
    assert found["first_fix_frame"] <= kept["first_fix_frame"] + 3
    assert found["published"] >= kept["published"] - 4
    assert found["median_m"] == pytest.approx(kept["median_m"], abs=12.0)
    assert found["wrong_100m"] == kept["wrong_100m"] == 0.0
