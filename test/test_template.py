"""A template is what the map would show of a view, if the view is turned and grown as supposed."""

import dataclasses

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from registration_support import look_down, painted_map, place

from aerial_vpr_cl.localization.map_orientation import MapOrientation
from aerial_vpr_cl.localization.orientation import orientation
from aerial_vpr_cl.localization.template import Hypothesis, TemplateMaker

TRUTH = place(1042.5, 842.5)  # half a pixel or less from a pixel's middle at both levels
STEPS_M = (10.0, 5.0)


@pytest.fixture(scope="module")
def satellite(tmp_path_factory):
    return painted_map(tmp_path_factory.mktemp("ground"))


@pytest.fixture(scope="module")
def ground(satellite):
    return MapOrientation.of([satellite])


def likeness(one, other):
    """Of two channels, 1 for the same."""
    return float((one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum()))


def under(template, level):
    """What the level has where the template shows something, with the drone at TRUTH."""
    column, row = np.floor((TRUTH - [level.west, level.north]) * [1.0, -1.0] / level.step_m).astype(int)
    planes = level.window(row + template.top, column + template.left, *template.planes.shape[1:]).planes
    return planes * np.any(template.planes, axis=0)  # a turned square leaves corners empty


@hypothesis_settings(max_examples=12, deadline=None)
@given(st.floats(-180.0, 180.0), st.floats(0.9, 1.1))
def test_a_view_turned_and_grown_back_shows_what_the_map_shows(ground, satellite, turn, scale):
    view = look_down(satellite, TRUTH, turn_deg=turn, scale=scale)
    for level in ground.levels:
        right = TemplateMaker(view, level.step_m).make(Hypothesis(turn, scale))
        assert likeness(right.planes, under(right, level)) > 0.8
        wrong = TemplateMaker(view, level.step_m).make(Hypothesis(turn + 90.0, scale))
        assert likeness(wrong.planes, under(wrong, level)) < 0.3


@pytest.mark.parametrize("step_m", STEPS_M)
@pytest.mark.parametrize("turn_deg", [0.0, 6.0, -48.0])
def test_turning_the_channel_is_turning_the_picture(satellite, step_m, turn_deg):
    """Against the channel of a picture that was turned first, which is slower."""
    view = look_down(satellite, TRUTH)
    middle = (len(view.mask) - 1) / 2.0
    matrix = cv2.getRotationMatrix2D((middle, middle), -turn_deg, 1.0)
    size = view.mask.shape[::-1]
    turned = cv2.warpAffine(view.image, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    slow = TemplateMaker(dataclasses.replace(view, image=turned), step_m).make(Hypothesis())
    quick = TemplateMaker(view, step_m).make(Hypothesis(turn_deg))
    reach = int(0.3 * view.footprint_m / step_m)  # where both see the ground
    parts = [t.planes[:, -t.top - reach : reach - t.top, -t.left - reach : reach - t.left] for t in (slow, quick)]
    assert likeness(*parts) > 0.95


def test_the_channel_of_a_finer_picture_is_the_same(satellite):
    view = look_down(satellite, TRUTH)
    picture = cv2.GaussianBlur(view.image.astype(np.float32), (0, 0), 4.0)
    everywhere = np.ones(view.mask.shape, np.bool_)
    coarse, _ = orientation(np.ascontiguousarray(picture[::4, ::4]), everywhere[::4, ::4], 10.0)
    finer, known = orientation(picture, everywhere, 10.0, 4.0)
    inside = known[::4, ::4]
    assert inside.mean() > 0.85
    same, other = (np.stack([channel.real, channel.imag])[:, inside] for channel in (coarse, finer[::4, ::4]))
    assert likeness(same, other) > 0.99


def test_what_was_not_seen_has_no_structure(satellite):
    view = look_down(satellite, TRUTH)
    mask = view.mask.copy()
    mask[:, : len(mask) // 2] = False
    for step_m in STEPS_M:
        template = TemplateMaker(dataclasses.replace(view, mask=mask), step_m).make(Hypothesis())
        assert not template.planes[:, :, : -template.left].any()
        assert template.planes[:, :, -template.left + 2 :].any()
