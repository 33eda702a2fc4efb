"""How good the answers of a localization node were: its published fixes beside the truth, out of a result bag."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyproj import Geod

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.evaluation.metrics import ErrorSummary, distance_errors, summarize_errors
from aerial_vpr_cl.geo.projection import Projection, utm_epsg
from aerial_vpr_cl.mission.bag_reader import Bag, open_bag
from aerial_vpr_cl.mission.bag_writer import TRUTH_TOPIC
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, Track, fault_of
from aerial_vpr_cl.mission.messages import NAV_SAT_FIX, deserialize
from aerial_vpr_cl.mission.topics import fix_topic_of

_WGS84 = Geod(ellps="WGS84")


@dataclass(frozen=True)
class AnswerReport:
    """Answers of one flight. A rejected frame is an answer without a position and counts as wrong in the recalls."""

    answers: int
    rejected: int
    reference: str  # "ground truth", "GNSS", or empty: nothing to compare with
    errors: ErrorSummary  # of the answers whose true position is known
    median_given_m: float  # over answers with a position

    def __str__(self) -> str:
        text = f"{self.answers} answers, {self.answers - self.rejected} with a position"
        if not self.errors.count:
            return text + "; no GNSS or ground truth to compare with"
        errors = self.errors
        recalls = (errors.recall_50, errors.recall_100, errors.recall_200, errors.recall_300)
        shares = " / ".join(f"{100 * recall:.0f}" for recall in recalls)
        text += f"\nagainst {self.reference} ({errors.count} frames): within 50 / 100 / 200 / 300 m: {shares} %"
        return text if math.isnan(self.median_given_m) else text + f", median {self.median_given_m:.0f} m"


class LiveScore:
    """Counts, while a flight goes on, how many answers lie near the true position of their frame."""

    def __init__(self, truth: Iterable[Fix], near_m: float = 300.0) -> None:
        self._truth = {fix.stamp_ns: fix for fix in truth}
        self._near_m = near_m
        self._near = self._judged = 0

    def add(self, answer: Fix) -> None:
        """One more answer; without a known truth at its stamp it does not count."""
        truth = self._truth.get(answer.stamp_ns)
        if truth is None:
            return
        self._judged += 1
        if answer.status >= 0:
            distance_m = _WGS84.inv(answer.longitude, answer.latitude, truth.longitude, truth.latitude)[2]
            self._near += distance_m <= self._near_m

    @property
    def figures(self) -> dict[str, float]:
        """For a progress bar: percent so far, nothing before the first."""
        return {f"within_{self._near_m:.0f}m_%": 100.0 * self._near / self._judged} if self._judged else {}


@dataclass(frozen=True)
class Answers:
    """What a node answered to the frames whose true position is known, and where the drone was."""

    given: NDArray[np.float64]  # (n, 2) easting and northing; NaN where the node rejected the frame
    truth: NDArray[np.float64]  # (n, 2)
    count: int  # of all answers
    rejected: int
    reference: str  # where the truth comes from


def read_answers(
    path: str | Path, answer_topic: str = "/localization/fix", projection: Projection | None = None
) -> Answers:
    """The answers in a bag beside the true positions in it, or its GNSS, in metres of the projection or own zone."""
    bag = open_bag(path, keep=(NAV_SAT_FIX,))
    answers = _fixes(bag, answer_topic)
    given = np.array([fix.status >= 0 for fix in answers], bool)
    rejected = int((~given).sum())
    reference, fixes = _reference(bag)
    good = next((fix for fix in fixes if not fault_of(fix, GnssGates())), None)
    if good is None or not answers:
        return Answers(np.empty((0, 2)), np.empty((0, 2)), len(answers), rejected, "")
    projection = projection or Projection(utm_epsg(good.latitude, good.longitude))
    truth, reasons = Track(fixes, GnssGates(), projection).at([fix.stamp_ns for fix in answers])
    positions = projection.to_utm([fix.latitude for fix in answers], [fix.longitude for fix in answers])
    positions[~given] = np.nan
    known = reasons == ""
    return Answers(positions[known], truth[known], len(answers), rejected, reference)


def judge_answers(path: str | Path, answer_topic: str = "/localization/fix") -> AnswerReport:
    """Compare the answers in a bag with the true positions in it, or with its GNSS where there is no truth."""
    answers = read_answers(path, answer_topic)
    errors = distance_errors(answers.given, answers.truth)
    with_position = errors[np.isfinite(answers.given).all(axis=1)]
    median_m = float(np.median(with_position)) if with_position.size else math.nan
    return AnswerReport(answers.count, answers.rejected, answers.reference, summarize_errors(errors), median_m)


def _reference(bag: Bag) -> tuple[str, list[Fix]]:
    if bag.counts.get(TRUTH_TOPIC):
        return "ground truth", _fixes(bag, TRUTH_TOPIC)
    try:
        return "GNSS", _fixes(bag, fix_topic_of(bag))
    except MissionError:
        return "", []


def _fixes(bag: Bag, topic: str) -> list[Fix]:
    return [Fix.from_message(deserialize(raw.data, NAV_SAT_FIX), raw.received_ns) for raw in bag.kept.get(topic, [])]
