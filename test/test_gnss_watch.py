"""GNSS watched against the track: lies are named within the distance that the report states, honesty is not."""

import numpy as np
import pytest
from mission_support import GRID, START_NS, place

from aerial_vpr_cl.localization.gnss_watch import (
    ABSENT,
    AGREE,
    DRIFTING,
    FROZEN,
    JUMPED,
    RECOVERY_S,
    UNCHECKED,
    WINDOW_S,
    GnssWatch,
)
from aerial_vpr_cl.mission.gnss import OWN_ESTIMATE, Fix, GnssGates

SPEED_MPS, TRACK_HZ, FIX_HZ = 15.0, 2, 5
TRACK_SIGMA_M, FIX_SIGMA_M = 8.0, 2.0
ORIGIN = GRID.projection.to_utm(*place(0))


class Flight:
    """A drone that flies east; its track errs slowly, as a track does, and its GNSS as it is told."""

    def __init__(self, seed=0):
        self.second = 0.0
        self.watch = GnssWatch(GRID.projection, GnssGates(), clock=lambda: self.second)
        self._rng = np.random.default_rng(seed)
        self._error = self._rng.normal(0.0, TRACK_SIGMA_M, 2)
        self._ticks = 0

    @property
    def truth(self):
        return ORIGIN + np.array([SPEED_MPS * self.second, 0.0])

    def fly(self, seconds, *, offset=lambda second: np.zeros(2), fixes=True, track=True, frozen=None, status=0):
        """Fly on; yields the report twice a second. `offset` is what is added to the fixes, by time since now."""
        start = self.second
        for _ in range(round(seconds * 10)):
            self._ticks += 1
            self.second = self._ticks / 10.0
            stamp_ns = START_NS + round(self.second * 1e9)
            if track and self._ticks % (10 // TRACK_HZ) == 0:
                self._error = 0.8 * self._error + self._rng.normal(0.0, 0.6 * TRACK_SIGMA_M, 2)
                self.watch.add_position(stamp_ns, self.truth + self._error, np.eye(2) * TRACK_SIGMA_M**2)
            if fixes and self._ticks % (10 // FIX_HZ) == 0:
                noise = self._rng.normal(0.0, FIX_SIGMA_M, 2)
                point = self.truth + offset(self.second - start) + noise if frozen is None else frozen
                latitude, longitude = GRID.projection.to_wgs84(point)
                self.watch.add_fix(Fix(stamp_ns, float(latitude), float(longitude), 0.0, status, FIX_SIGMA_M))
            if self._ticks % 5 == 0:
                yield self.watch.report()

    def last(self, seconds, **options):
        return list(self.fly(seconds, **options))[-1]


@pytest.mark.parametrize("seed", range(5))
def test_an_honest_receiver_is_never_accused(seed):
    flight = Flight(seed)
    reports = list(flight.fly(300))[1:]
    assert {report.state for report in reports} <= {AGREE, UNCHECKED}
    assert reports[-1].trusted and reports[-1].state == AGREE
    assert np.median(reports[-1].errors_m) < 3 * TRACK_SIGMA_M


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("known_before", [True, False])
def test_a_constant_offset_is_named_as_soon_as_the_window_is_full(seed, known_before):
    flight = Flight(seed)
    if known_before:
        assert flight.last(60).trusted
    limit_m = np.sqrt(13.8 * (TRACK_SIGMA_M**2 + FIX_SIGMA_M**2))
    aside = np.array([0.0, 2.0 * limit_m])
    reports = list(flight.fly(2 * WINDOW_S, offset=lambda _: aside))
    named = next(report for report in reports if report.state == JUMPED)
    assert named.trusted is False and reports[-1].state == JUMPED
    assert named.limit_m == pytest.approx(limit_m, rel=0.01) and f"{named.limit_m:.0f} m could be" in str(named)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pace_mps", [0.2, 1.0, 3.0])
def test_a_slow_drag_off_is_named_within_the_stated_distance(seed, pace_mps):
    flight = Flight(seed)
    assert flight.last(60).trusted
    start = flight.second
    named = next(
        report
        for report in flight.fly(600, offset=lambda second: np.array([pace_mps * second, 0.0]))
        if report.trusted is False
    )
    dragged_m = pace_mps * (flight.second - start)
    # Beyond the limit: what the track itself errs, and how far it is dragged in half a window.
    assert dragged_m < named.limit_m + 3 * TRACK_SIGMA_M + pace_mps * WINDOW_S
    assert named.state == DRIFTING


def test_a_frozen_receiver_is_named_though_it_says_nothing_wrong():
    flight = Flight()
    assert flight.last(30).trusted
    still = flight.truth
    named = next(report for report in flight.fly(60, frozen=still) if report.state == FROZEN)
    assert named.is_caught and named.trusted is False and "same position" in str(named)


def test_silence_no_fix_and_own_answers_are_absence():
    flight = Flight()
    assert flight.last(1, fixes=False).state == ABSENT and flight.last(1, fixes=False).trusted is False
    assert flight.last(30).state == AGREE
    assert flight.last(10, fixes=False).state == ABSENT
    assert "no fix" in flight.last(1, status=-1).reason
    assert not flight.watch.report().is_caught  # a receiver that says nothing does not lie
    flight.watch.add_fix(Fix(START_NS, 47.0, 8.0, is_own=True))
    assert OWN_ESTIMATE in flight.watch.report().reason


def test_without_a_track_nothing_is_said_for_or_against():
    flight = Flight()
    report = flight.last(10, track=False)
    assert (report.state, report.trusted) == (UNCHECKED, None)
    assert flight.last(30).trusted
    assert flight.last(30, track=False).trusted is None


def test_a_receiver_that_was_caught_is_trusted_again_only_after_a_while():
    flight = Flight()
    flight.last(30)
    assert flight.last(20, offset=lambda _: np.array([200.0, 0.0])).state == JUMPED
    assert flight.last(RECOVERY_S / 2).trusted is False
    assert flight.last(60, track=False).trusted is False  # nothing was seen to the contrary
    assert flight.last(4 * RECOVERY_S).trusted


def test_a_liar_whose_stamps_jump_to_and_fro_is_caught_all_the_same():
    """Some drivers stamp by the satellites while there are any, and by the computer's clock otherwise."""
    flight = Flight()
    flight.last(30)
    place = GRID.projection.to_wgs84(ORIGIN)
    for _ in flight.fly(20, offset=lambda _: np.array([300.0, 0.0])):
        stamp_ns = START_NS + round(flight.second * 1e9)
        flight.watch.add_fix(Fix(stamp_ns + 8 * 10**9, float(place[0]), float(place[1])))
        flight.watch.rewind(stamp_ns)
    assert flight.watch.report().state == JUMPED and flight.watch.report().is_caught
    flight.watch.rewind(stamp_ns - 5 * 10**9)
    assert flight.last(2).trusted is False  # what it was caught in is not forgotten


def test_a_jump_of_time_begins_anew_and_nothing_grows():
    flight = Flight()
    list(flight.fly(400))
    assert len(flight.watch._innovations) <= 130 * FIX_HZ
    flight.watch.reset()
    assert flight.watch.report().state == ABSENT
