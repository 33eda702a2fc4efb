"""The temporal split of a mission."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.mission.split import split_halves

PAPER_SIZES = {
    "JHT-01": 63,
    "JHT-02": 348,
    "JHT-04": 257,
    "JHT-05": 257,
    "LSZ-01": 275,
    "LSZ-06": 281,
    "LSZ-07": 284,
    "TD-02-seq": 237,
    "TD-07-seq": 189,
    "TD-13-seq": 500,
}


def test_the_papers_ten_missions_give_its_1294_training_and_1297_test_frames():
    assert sum(PAPER_SIZES.values()) == 2691
    halves = [split_halves(n) for n in PAPER_SIZES.values()]
    assert sum(train.stop - train.start for train, _ in halves) == 1294
    assert sum(test.stop - test.start for _, test in halves) == 1297


@given(st.integers(0, 2000), st.integers(0, 20))
def test_halves_are_contiguous_disjoint_and_two_gaps_apart(n, gap):
    train, test = split_halves(n, gap)
    frames = range(n)
    assert list(frames[train]) == list(range(len(frames[train])))
    assert list(frames[test]) == list(range(n - len(frames[test]), n))
    if len(frames[train]) and len(frames[test]):
        assert frames[test][0] - frames[train][-1] == 2 * gap + 1


def test_a_mission_too_short_for_the_gap_gives_empty_halves():
    assert [len(range(8)[half]) for half in split_halves(8)] == [0, 0]


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="-1 frames"):
        split_halves(-1)
