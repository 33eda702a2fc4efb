"""Answers along a flight as a run of the page, with its figures; answers from result bags and files too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aerial_vpr_cl.evaluation.answers import DIAGNOSTIC_STATUS, read_answers
from aerial_vpr_cl.evaluation.flight_score import FlightAnswers, FlightScore, covered, score
from aerial_vpr_cl.evaluation.score_tables import text_of
from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.localization.estimate import REASONS
from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.messages import NAV_SAT_FIX
from aerial_vpr_cl.mission.topics import answer_topic_of
from aerial_vpr_cl.page.runs import FlightRun, Moment, Pictures, known

RELIABILITY = (10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)
"""Stated regions, in per cent, that are compared with what they held."""


def answers_of_bag(path: Path, projection: Projection) -> FlightAnswers | None:
    """What a node answered, out of a bag that holds its answers and no images; None for a flight to be flown again."""
    topic = answer_topic_of(open_bag(path, keep=(NAV_SAT_FIX, DIAGNOSTIC_STATUS)))
    return None if topic is None else read_answers(path, topic, projection)


def run_of(
    answers: FlightAnswers, moments: Sequence[Moment] | None = None, pictures: Sequence[Pictures] = ()
) -> FlightRun:
    """A flight with the figures of its answers; moments that somebody watched say more than the answers do."""
    found = score([answers])
    return FlightRun(
        name=answers.name,
        moments=moments if moments is not None else _moments(answers),
        pictures=pictures,
        summary=summary(answers, found),
        figures=figures(found),
        score=found.to_dict(),
        coverage={str(share): held for share, held in zip(RELIABILITY, covered(answers, RELIABILITY))},
        silences={REASONS.get(reason, reason): count for reason, count in found.silences.items()},
    )


def _moments(answers: FlightAnswers) -> list[Moment]:
    reference = [known(point) for point in answers.truth]
    nothing = [None] * len(reference)
    truth, gnss = (reference, nothing) if answers.positions == "truth" else (nothing, reference)
    return [
        Moment(
            stamp_ns=int(stamp_ns),
            reason=answers.reasons[row],
            position=known(answers.given[row]),
            covariance=known(answers.covariances[row]) if known(answers.given[row]) is not None else None,
            truth=truth[row],
            gnss=gnss[row],
        )
        for row, stamp_ns in enumerate(answers.stamps_ns)
    ]


def summary(answers: FlightAnswers, found: FlightScore) -> str:
    """A flight in one line."""
    text = f"{found.published} of {found.frames} frames got a position"
    if not np.isfinite(answers.errors_m).any():
        return f"{text}; nothing to measure it against"
    near = found.published_recall["50"]
    return f"{text}; {near:.1%} of them within 50 m, median {found.median_m:.0f} m, against {answers.positions}"


def figures(found: FlightScore) -> dict[str, str]:
    """The columns of the page's table."""
    shares = {f"within {metres} m": found.published_recall[str(metres)] for metres in (25, 50, 100)}
    return {
        "frames": str(found.frames),
        "positions": str(found.published),
        "first at frame": text_of(found.first_fix_frame, ".0f"),
        "available after": text_of(found.availability, ".1%"),
        **{name: text_of(share, ".1%") for name, share in shares.items()},
        "wrong by > 100 m": text_of(found.wrong_100m, ".2%"),
        "median": text_of(found.median_m, ".0f", " m"),
        "NEES": text_of(found.nees, ".1f"),
    }
