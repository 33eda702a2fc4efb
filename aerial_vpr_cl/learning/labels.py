"""Labels: where the frames of a flight were taken, from GNSS only as far as the flight itself proves it.

The flight is followed forwards and backwards over the map; where both ways agree the track is proven. GNSS that agrees
with it is taken, being the finer; where it does not, the track is. So a jammed flight is learnt, and a false GNSS
teaches nothing. A receiver that is caught lying is believed nowhere in that flight: where a lie passes near the truth
it agrees with the track by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.learning.adapt_settings import LabelSettings
from aerial_vpr_cl.localization.estimate import Estimate, Rejection
from aerial_vpr_cl.mission.course import with_course_heading
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.gnss import GnssGates, Track
from aerial_vpr_cl.mission.mission import Flight
from aerial_vpr_cl.mission.situation import Motion
from aerial_vpr_cl.progress import Progress, silent

GNSS, TRACK = "gnss", "track"
NO_TRACK = "no proven track"
UNSURE_TRACK = "track not sure enough"
GNSS_UNPROVEN = "GNSS not proven"

REASONS = {
    NO_TRACK: "neither the way forwards nor the way back was sure of the place",
    UNSURE_TRACK: "the track is surer of the neighbourhood than of the cell",
    GNSS_UNPROVEN: "there is no track here, and the one around it does not bear GNSS out",
}

SAME_PLACE = 13.8
"""Squared sigmas (two degrees of freedom) beyond which one in a thousand honest pairs lies."""


LYING_SHARE = 0.05
"""Of the fixes of a flight that can be judged; honest ones contradict a track a hundred times more seldom."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where the track has a frame: (2,) easting and northing, (2, 2) covariance in m²."""

    position: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def radius_m(self) -> float:
        """Holds the true position with 95 % probability."""
        return float(np.sqrt(5.991 * np.linalg.eigvalsh(self.covariance)[-1]))


@dataclass(frozen=True, eq=False)
class Label:
    """A position to learn from, with where it comes from."""

    position: NDArray[np.float64]
    sigma_m: float
    source: str


@dataclass(frozen=True, eq=False)
class Labels:
    """One label for every frame of a flight, or a reason why it has none."""

    labels: tuple[Label | str, ...]

    @property
    def sources(self) -> dict[str, int]:
        """How many labels come from where."""
        return dict(Counter(label.source for label in self.labels if isinstance(label, Label)))

    @property
    def left_out(self) -> dict[str, int]:
        """How many frames have none, by reason."""
        return dict(Counter(label for label in self.labels if isinstance(label, str)))


Step = Callable[[Frame, int, Motion | None], Estimate | Rejection]
"""Gives a tracker a frame at a time in nanoseconds, with the motion since the frame before."""


def label_flight(
    flight: Flight,
    grid: Grid,
    new_tracker: Callable[[], Step],
    settings: LabelSettings | None = None,
    gates: GnssGates | None = None,
    progress: Progress = silent,
) -> Labels:
    """Follow a flight both ways and label its frames. The flight's own positions, which may be the truth, are not used.

    Where no attitude was recorded the heading is the course of GNSS: that of a false one finds no track.
    """
    settings, gates = settings or LabelSettings(), gates or GnssGates()
    stamps = [frame.stamp_ns for frame in flight.frames]
    receiver = Track(flight.fixes, gates, grid.projection)
    (gnss, _), sigmas_m = receiver.at(stamps), receiver.sigmas_at(stamps)
    placed = tuple(
        replace(frame, position=point, position_sigma_m=float(sigma_m))
        for frame, point, sigma_m in zip(flight.frames, gnss, sigmas_m)
    )
    frames = with_course_heading(replace(flight, frames=placed)).frames
    forwards = _follow(frames, new_tracker(), progress, "follow")
    backwards = _follow(reverse(frames), new_tracker(), progress, "follow back")[::-1]
    track = [join(there, back) for there, back in zip(forwards, backwards)]
    radius_m = settings.label_radius_cells * grid.cell_side_m
    believed = gnss if settings.labels != TRACK else np.full_like(gnss, np.nan)
    return Labels(choose(track, believed, sigmas_m, stamps, radius_m, settings.gnss_bridge_s))


def join(first: Place | None, second: Place | None) -> Place | None:
    """Two looks at one frame as one, by covariance intersection: both have seen the frame itself, so neither is news.

    None where they contradict each other. Where only one way was sure its word is taken.
    """
    if first is None or second is None:
        return first or second
    apart = first.position - second.position
    if apart @ np.linalg.solve(first.covariance + second.covariance, apart) > SAME_PLACE:
        return None
    ways = [np.linalg.inv(place.covariance) / 2.0 for place in (first, second)]
    covariance = np.linalg.inv(ways[0] + ways[1])
    return Place(covariance @ (ways[0] @ first.position + ways[1] @ second.position), covariance)


def choose(
    track: Sequence[Place | None],
    gnss: NDArray[np.float64],
    gnss_sigmas_m: NDArray[np.float64],
    stamps_ns: Sequence[int],
    radius_m: float,
    bridge_s: float,
) -> tuple[Label | str, ...]:
    """Labels from the (n,) track and the (n, 2) GNSS positions, NaN where there is none.

    A track that is not sure enough to be a label is no proof of GNSS either: it may be a cell away and still agree. Nor
    is GNSS taken that is further from the track than labels may be, however unsure it says it is, nor what lies between
    such fixes.
    """
    labels: list[Label | str] = []
    words = [_word_on(place, point, sigma) for place, point, sigma in zip(track, gnss, gnss_sigmas_m)]
    judged = [word for word in words if word is not None]
    honest = judged.count(False) <= LYING_SHARE * len(judged)
    verdicts = [_verdict_on(word, place, point, radius_m) for word, place, point in zip(words, track, gnss)]
    for k, (place, point) in enumerate(zip(track, gnss)):
        by_gnss, has_gnss = Label(point, float(gnss_sigmas_m[k]), GNSS), bool(np.isfinite(point).all())
        if place is not None and place.radius_m <= radius_m:
            believed = honest and verdicts[k]
            labels.append(by_gnss if believed else Label(place.position, place.radius_m / 2.448, TRACK))
        elif honest and has_gnss and verdicts[k] is None and _is_bridged(verdicts, stamps_ns, k, bridge_s):
            labels.append(by_gnss)
        elif place is not None:
            labels.append(UNSURE_TRACK)
        else:
            labels.append(GNSS_UNPROVEN if has_gnss else NO_TRACK)
    return tuple(labels)


def reverse(frames: Sequence[Frame]) -> list[Frame]:
    """The same flight flown backwards: the frames in turn, each with the motion from the one after it."""
    turned = []
    for k in range(len(frames) - 1, -1, -1):
        motion = frames[k + 1].motion if k + 1 < len(frames) else None
        turned.append(replace(frames[k], motion=None if motion is None else backwards(motion)))
    return turned


def backwards(motion: Motion) -> Motion:
    """The way back of a motion, in the body axes of the frame where it began."""
    turn = np.radians(motion.turn_deg)
    forward, left = motion.forward_left_m
    # Those axes are turned back, so what was ahead lies to the right of them when the turn was clockwise.
    there = np.array([forward * np.cos(turn) + left * np.sin(turn), left * np.cos(turn) - forward * np.sin(turn)])
    return Motion(-there, -motion.turn_deg, motion.seconds)


def _follow(frames: Sequence[Frame], step: Step, progress: Progress, what: str) -> list[Place | None]:
    """Places where the tracker was sure. Time always runs forwards for it, whichever way the flight is flown."""
    places: list[Place | None] = []
    start_ns = frames[0].stamp_ns if frames else 0
    for k, frame in enumerate(frames):
        answer = step(frame, start_ns + abs(frame.stamp_ns - start_ns), frame.motion)
        places.append(Place(answer.position, answer.covariance) if isinstance(answer, Estimate) else None)
        progress(what, k + 1, len(frames))
    return places


def _word_on(place: Place | None, point: NDArray[np.float64], sigma_m: float) -> bool | None:
    """Whether the track agrees with GNSS; None where one of them says nothing."""
    if place is None or not np.isfinite(point).all():
        return None
    apart = point - place.position
    covariance = place.covariance + np.eye(2) * sigma_m**2
    return bool(apart @ np.linalg.solve(covariance, apart) <= SAME_PLACE)


def _verdict_on(word: bool | None, place: Place | None, point: NDArray[np.float64], radius_m: float) -> bool | None:
    """Whether GNSS may be taken here; None where the track is not sure enough to say so, and does not contradict it."""
    if not word or place is None:
        return word
    if place.radius_m > radius_m:
        return None
    return bool(np.hypot(*(point - place.position)) <= radius_m)


def _is_bridged(verdicts: Sequence[bool | None], stamps_ns: Sequence[int], k: int, bridge_s: float) -> bool:
    """Whether the verdicts on GNSS next to this frame, on both sides, are good and not too far apart in time."""
    before = next((j for j in range(k - 1, -1, -1) if verdicts[j] is not None), None)
    after = next((j for j in range(k + 1, len(verdicts)) if verdicts[j] is not None), None)
    if before is None or after is None or not (verdicts[before] and verdicts[after]):
        return False
    return stamps_ns[after] - stamps_ns[before] <= bridge_s * 1e9
