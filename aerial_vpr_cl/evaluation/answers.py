"""How good the answers of a localization node were: its published fixes beside the truth, out of a result bag."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyproj import Geod

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, FlightScore, score
from aerial_vpr_cl.geo.projection import Projection, utm_epsg
from aerial_vpr_cl.mission.bag_reader import Bag, open_bag
from aerial_vpr_cl.mission.bag_writer import TRUTH_TOPIC
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, Track, fault_of
from aerial_vpr_cl.mission.messages import NAV_SAT_FIX, deserialize
from aerial_vpr_cl.mission.mission import mission_facts
from aerial_vpr_cl.mission.topics import fix_topic_of

_WGS84 = Geod(ellps="WGS84")

DIAGNOSTIC_STATUS = "diagnostic_msgs/msg/DiagnosticStatus"
NO_REASON = "not said"
REFERENCES = {"truth": "ground truth", "gnss": "GNSS"}


@dataclass(frozen=True)
class AnswerReport:
    """Answers of one flight. A rejected frame is an answer without a position and counts as wrong in the recalls."""

    reference: str  # one of REFERENCES, or empty: nothing to compare with
    judged: int  # answers whose true position is known
    score: FlightScore

    def __str__(self) -> str:
        found = self.score
        text = f"{found.frames} answers, {found.published} with a position"
        if not self.judged:
            return text + "; no GNSS or ground truth to compare with"
        shares = " / ".join(f"{100 * found.recall[metres]:.0f}" for metres in ("25", "50", "100", "300"))
        text += (
            f"\nagainst {REFERENCES[self.reference]} ({self.judged} frames): within 25 / 50 / 100 / 300 m: {shares} %"
        )
        if math.isnan(found.median_m):
            return text
        covered = f"the stated 95 % regions hold {100 * found.coverage['95']:.0f} % of the truth"
        return f"{text}, median {found.median_m:.0f} m\n{covered}; silent: {found.silences or 'never'}"


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


def read_answers(
    path: str | Path, answer_topic: str = "/localization/fix", projection: Projection | None = None
) -> FlightAnswers:
    """The answers in a bag beside the true positions in it, or its GNSS, in metres of the projection or own zone.

    Why a frame got no position stands in the node's state of that moment, beside the answers' topic.
    """
    bag = open_bag(path, keep=(NAV_SAT_FIX, DIAGNOSTIC_STATUS))
    answers = [deserialize(raw.data, NAV_SAT_FIX) for raw in bag.kept.get(answer_topic, [])]
    fixes = [Fix.from_message(message) for message in answers]
    stamps = np.array([fix.stamp_ns for fix in fixes], np.int64)
    silences = _silences(bag, answer_topic.rsplit("/", 1)[0] + "/state")
    reference, known = _reference(bag)
    placed = [fix for fix in known if not fault_of(fix, GnssGates())] or [fix for fix in fixes if fix.status >= 0]
    truth, given = np.full((len(fixes), 2), np.nan), np.full((len(fixes), 2), np.nan)
    if placed and fixes:
        projection = projection or Projection(utm_epsg(placed[0].latitude, placed[0].longitude))
        if known:
            positions, reasons = Track(known, GnssGates(), projection).at(stamps)
            truth = np.where((reasons == "")[:, None], positions, np.nan)
        given = projection.to_utm([fix.latitude for fix in fixes], [fix.longitude for fix in fixes])
    given[[fix.status < 0 for fix in fixes]] = np.nan
    name, modality = mission_facts(path)
    return FlightAnswers(
        name=name,
        modality=modality,
        positions=reference if np.isfinite(truth).any() else "",
        stamps_ns=stamps,
        truth=truth,
        given=given,
        covariances=np.array([_covariance(message) for message in answers], np.float64).reshape(-1, 2, 2),
        reasons=tuple("" if fix.status >= 0 else silences.get(fix.stamp_ns, NO_REASON) for fix in fixes),
        epsg=projection.epsg if projection else 0,
    )


def judge_answers(path: str | Path, answer_topic: str = "/localization/fix") -> AnswerReport:
    """Compare the answers in a bag with the true positions in it, or with its GNSS where there is no truth."""
    answers = read_answers(path, answer_topic)
    return AnswerReport(answers.positions, int(answers.known.sum()), score([answers]))


def _covariance(message: Any) -> NDArray[np.float64]:
    """(2, 2) of east and north."""
    return np.asarray(message.position_covariance, np.float64).reshape(3, 3)[:2, :2]


def read_state(status: Any) -> tuple[int, dict[str, str]]:
    """A localization node's state: the stamp of its frame, 0 where it has none, and what it says of it."""
    values = {entry.key: entry.value for entry in status.values}
    seconds, _, nanoseconds = values.get("stamp", "").partition(".")
    known = seconds.isdecimal() and nanoseconds.isdecimal()
    return int(seconds) * 10**9 + int(nanoseconds) if known else 0, values


def _silences(bag: Bag, topic: str) -> dict[int, str]:
    """Stamp of a frame → why it got no position, as the node's state said."""
    states = [read_state(deserialize(raw.data, DIAGNOSTIC_STATUS)) for raw in bag.kept.get(topic, [])]
    return {stamp_ns: values["reason"] for stamp_ns, values in states if stamp_ns and values.get("reason")}


def _reference(bag: Bag) -> tuple[str, list[Fix]]:
    if bag.counts.get(TRUTH_TOPIC):
        return "truth", _fixes(bag, TRUTH_TOPIC)
    try:
        return "gnss", _fixes(bag, fix_topic_of(bag))
    except MissionError:
        return "", []


def _fixes(bag: Bag, topic: str) -> list[Fix]:
    return [Fix.from_message(deserialize(raw.data, NAV_SAT_FIX), raw.received_ns) for raw in bag.kept.get(topic, [])]
