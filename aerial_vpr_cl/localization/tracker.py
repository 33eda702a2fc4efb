"""The drone followed over the map: the network proposes, geometry disposes, and the belief remembers."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.localization.belief import Belief
from aerial_vpr_cl.localization.blind_stretch import BlindStretch
from aerial_vpr_cl.localization.estimate import (
    BLANK_IMAGE,
    BLIND,
    FROZEN_CAMERA,
    MISFIT_VIEW,
    SAME_IMAGE,
    SAME_MOMENT,
    Estimate,
    Rejection,
)
from aerial_vpr_cl.localization.evidence import Weighing
from aerial_vpr_cl.localization.image_faults import ImageWatch, is_blank
from aerial_vpr_cl.localization.instruments import ANY_HEADING_DEG, Instruments
from aerial_vpr_cl.localization.judgement import Findings, Judge, agree
from aerial_vpr_cl.localization.lasting_errors import LastingErrors, PlaceError
from aerial_vpr_cl.localization.lattice import Lattice
from aerial_vpr_cl.localization.map_views import BLIND_SCALE, is_blind, views_for
from aerial_vpr_cl.localization.modes import Mode, modes
from aerial_vpr_cl.localization.motion_model import Course, MotionModel, OdometryWatch, Step
from aerial_vpr_cl.localization.novelty import SUPPOSED_SPEED_M_S, Novelty
from aerial_vpr_cl.localization.odometry_check import OdometryCheck
from aerial_vpr_cl.localization.own_structure import OwnStructure
from aerial_vpr_cl.localization.proposal import Image, Propose, Register
from aerial_vpr_cl.localization.publication import estimate_of, radius_of, stated_covariance
from aerial_vpr_cl.localization.registration import Peak
from aerial_vpr_cl.localization.search_plan import PROVEN, SearchPlan
from aerial_vpr_cl.localization.states import LOST, OFF_MAP, SEARCHING, TRACKING, UNSURE, Signs, StateMachine
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.localization.view import View, ViewSettings, make_view
from aerial_vpr_cl.mission.situation import Motion, Situation

log = logging.getLogger(__name__)

MAX_RADIUS_M, MAX_RADIUS_CELLS = 150.0, 2.0
"""Largest 95 % radius that is published, with registration and without."""
UNSURE_LEAK, LOST_LEAK = 0.004, 0.02
"""Share of the belief that may be anywhere once views stop fitting, and once the track is given up."""
OPERATOR_LEAK = 0.05
"""Share of what an operator says of the position that may be a mistake."""
CONVINCING = 0.8
"""Proof of a single registration that makes it a confirmation of its own."""
LEADING = 0.5
"""Share of the belief from which on a place is more than a guess."""
SAME_GROUND = 0.025
"""Share of a footprint over which the ground misleads a tilt alike: so regions hold at 1 m a frame and at 30."""
REFUTING = 0.95
"""Proof of a registration with another heading that refutes the compass."""


class Tracker:
    """One flight over one map. Give it every frame in time order; it answers with a position or with a reason."""

    def __init__(
        self,
        grid: Grid,
        view: ViewSettings,
        *,
        register: Register | None = None,
        propose: Propose | None = None,
        settings: TrackerSettings | None = None,
    ) -> None:
        self.settings = settings = settings or TrackerSettings()
        self.grid = grid
        self.view_settings = view
        self._register = register if settings.use_registration else None
        self._propose = propose if settings.use_network else None
        lattice = Lattice.over_grid(grid, view.footprint_m / 2.0, settings.lattice_m or None)
        self.belief = Belief(lattice, off_map=settings.off_map)
        self.instruments = Instruments(view.footprint_m)
        # Twice half the diagonal is all of the map.
        furthest_m = math.hypot(*lattice.shape) * lattice.step_m / 2.0
        self._motion = MotionModel(settings.odometry_lasting_m, settings.max_speed_m_s, furthest_m)
        self._states = StateMachine(settings.confirmations, settings.surprises, settings.lost_after)
        self._images, self._own = ImageWatch(view.footprint_m), OwnStructure(view.footprint_m)
        self._judge = Judge(grid, settings.network_trust)
        self._course, self._odometry = Course(), OdometryWatch()
        self._ways = OdometryCheck(settings.odometry_noise, settings.odometry_lasting_m)
        self._novelty = Novelty(settings.attitude_lasting_s)
        self._blind = BlindStretch()
        ground_m = SAME_GROUND * view.footprint_m
        self._lasting = LastingErrors(settings.attitude_lasting_s, settings.odometry_lasting_m, ground_m)
        self._least_m = math.hypot(lattice.step_m / math.sqrt(12.0), settings.map_accuracy_m)
        map_km2 = lattice.n_cells * lattice.step_m**2 / 1e6
        self._plan = SearchPlan(grid, map_km2, settings.search_km2, settings.top_cells)
        self.reset()

    @property
    def state(self) -> str:
        """One of the names in `states`."""
        return self._states.state

    @property
    def odometry_is_believed(self) -> bool:
        """Whether nothing that the views showed speaks against odometry, if there is one."""
        return not (self._ways.contradicted or self._odometry.is_stuck)

    def reset(self) -> None:
        """Begin a new flight: nothing is known of position and instruments."""
        self.instruments.reset()
        self._images.reset()
        self._own.reset()
        self._odometry.reset()
        self._ways.reset()
        self._stamp_ns: int | None = None
        self.relocalize()

    def relocalize(self) -> None:
        """Forget the position and search for it; what was learnt of the instruments stays."""
        self._laid = False  # whether a view was laid on the map where the track is
        self._weighing, self._news = Weighing(), 1.0  # of the last view, and its share of new ground
        self.belief.forget()
        self._states.reset()
        self._judge.reset()
        self._course.reset()
        self._novelty.renew()
        self._blind.reset()
        self._lasting.reset()
        self._ways.forget()
        self._alone_m = 0.0  # by odometry, without a view that fitted
        self._unseen_s = 0.0  # without any view
        self._plan.reset()

    def initialize(self, position: ArrayLike, covariance: ArrayLike) -> None:
        """Begin where an operator says, (2,) in the grid's metres with its (2, 2) covariance; the views decide then."""
        self.relocalize()
        self.belief.place(position, covariance)
        self.belief.leak(OPERATOR_LEAK)
        self._states.reset(UNSURE)

    def step(
        self, stamp_ns: int, image: Image, situation: Situation, motion: Motion | None = None
    ) -> Estimate | Rejection:
        """Where (H, W, 3) uint8 RGB was taken, or why that is not said; `motion` is since the frame before."""
        if not self.settings.use_belief:
            self.reset()
        seconds = self._seconds_since(stamp_ns)
        if seconds == 0.0 and self._stamp_ns is not None:
            return Rejection(SAME_MOMENT, state=self.state)
        told = self._odometry.believed(motion, seconds) if self._stamp_ns is not None else None
        motion = None if self._ways.contradicted else told
        first, self._stamp_ns = self._stamp_ns is None, stamp_ns
        # Its turns are believed all the same: what falsifies a way hardly turns it, and proven views correct headings.
        known = self.instruments.read(situation, told, seconds, image.shape)
        step = None if first else self._move(motion, known, seconds)
        self._ways.move(told, self.instruments.heading.value, known.heading_sigma_deg)
        if self._plan.any_heading and known.height_m and known.height_sigma_m < BLIND_SCALE * known.height_m:
            known = replace(known, heading_sigma_deg=ANY_HEADING_DEG)
        fault = self._fault(image, step)
        view: View | Rejection = Rejection(fault)
        if not fault:
            self._own.look(image, np.zeros(2) if step is None else step.displacement if step.guided else None)
            view = make_view(image, known, views_for(known, self.view_settings), self._own.hidden)
        self._leak(view, 0.0 if first else seconds)
        findings = self._look(image, view, known) if isinstance(view, View) else Findings()
        mode = next(iter(modes(self.belief)), None)
        swaying = PlaceError(0.0)
        if isinstance(view, View) and step is not None and not step.guided:
            swaying = findings.place_error(view)
        covariance = stated_covariance(mode, self._lasting.share, self._least_m, swaying) if mode else np.eye(2)
        sure = mode is not None and mode.mass >= self.settings.min_confidence
        sure = sure and radius_of(covariance) <= self._max_radius_m(view)
        self._course.add(mode.mean if mode is not None and sure else None, seconds)
        before = self.state
        weight = self._weight_of(findings.peak)
        signs = Signs(sure, findings.supports, findings.misfit, self.belief.off_map, weight, seconds)
        state = self._states.advance(signs)
        self._react(before, findings, mode)
        if mode is not None and sure and findings.peak is not None:
            self._learn(mode, findings.peak)
        steady = (state == TRACKING and not self._states.misfits) or not self.settings.use_belief
        if mode is None or not sure or not steady or fault == FROZEN_CAMERA or not self._is_proven(view, step):
            return Rejection(self._why_silent(view, step), mode.mass if mode else 0.0, state)
        return estimate_of(mode, covariance, findings.peak, self.grid, self.instruments, state)

    def _seconds_since(self, stamp_ns: int) -> float:
        """Since the frame before; a time that ran backwards, or stood too long, begins a new flight."""
        if self._stamp_ns is None:
            return 0.0
        seconds = (stamp_ns - self._stamp_ns) / 1e9
        if seconds < 0.0 or seconds > self.settings.max_gap_s:
            log.warning("time went from one frame to the next by %.1f s: the track begins anew", seconds)
            self.reset()
            return 0.0
        return seconds

    def _move(self, motion: Motion | None, known: Situation, seconds: float) -> Step:
        """Predict the belief."""
        heading = self.instruments.heading
        step = self._motion.step(
            motion,
            self._ways.noise,
            heading.value,
            known.heading_sigma_deg,
            seconds,
            self._alone_m,
            self._unseen_s,
            self.belief.lattice.step_m,
            self._course.velocity,
        )
        self.belief.predict(step.displacement, step.kernel)
        self._alone_m += step.length_m
        self._unseen_s += seconds
        self._novelty.add(step if motion is not None else None, seconds)
        if step.guided:
            self._lasting.move(step.length_m, seconds, step.noise, step.spread_m2)
        else:
            self._lasting.reset()
        return step

    def _leak(self, view: View | Rejection, seconds: float) -> None:
        """Nothing is ever impossible, but a drone that sees the ground of before was not carried away."""
        passed_s = min(1.0, seconds)
        if isinstance(view, View):
            self._weighing = self._novelty.weighing(view)
            if self._novelty.new_m is not None:
                passed_s = min(passed_s, self._novelty.new_m / SUPPOSED_SPEED_M_S)
        self.belief.leak(self.settings.leak * passed_s)

    def _fault(self, image: Image, step: Step | None) -> str:
        """Why an image tells nothing, or an empty text."""
        if is_blank(image):
            return BLANK_IMAGE
        # Either the camera or the odometry is wrong, so neither is a reason to be sure.
        return FROZEN_CAMERA if self._images.is_frozen(image, step.length_m if step else 0.0) else ""

    def _look(self, image: Image, view: View, known: Situation) -> Findings:
        """Ask network and map, and update the belief with what of it is new."""
        weighing = self._weighing
        self._news = weighing.place
        if self._images.repeated and not self._novelty.complete:
            return Findings()
        if not self._plan.is_worth_while(max(weighing.place, self._novelty.waited(view.footprint_m))):
            return Findings()
        tracking = self.state == TRACKING and self._register is not None
        proposal = None if tracking or self._propose is None else self._propose(image, known)
        findings = self._judge.cells(proposal, self.belief)
        if proposal is not None:
            trust = self.settings.network_trust * weighing.place
            self.belief.update_cells(proposal.probabilities, self.grid, trust=trust, offset_m=proposal.offset_m)
        if self._register is not None and not is_blind(view):
            followed = self._states.misfits == 0 and self.state in (TRACKING, UNSURE)
            registration = self._register(view, self._plan.windows(view, proposal, self.belief, followed))
            findings = self._judge.registration(registration, self.belief, tracking)
            if findings.peak is not None and findings.peak.proof >= CONVINCING:
                self._ways.see(findings.peak.position, findings.peak.covariance)
            self._laid = self._laid or self._bears_out(findings)
            self._blind.move(weighing.place)
            self._blind.see(self.belief.update(registration.surfaces, weighing, self._blind.probability))
            self._lasting.see(findings.place_error(view), weighing.shape)
            self._alone_m *= 1.0 - weighing.place if findings.misfit is False else 1.0
        self._novelty.used()
        self._unseen_s = 0.0
        return findings

    def _react(self, before: str, findings: Findings, mode: Mode | None) -> None:
        """What a change of state, or a search in vain, asks for."""
        state = self.state
        if state == UNSURE and before == TRACKING and self._states.misfits:
            self.belief.leak(UNSURE_LEAK)
            self._novelty.renew()
            self._odometry.contradict()
        elif state == LOST and before != LOST:
            self.belief.leak(LOST_LEAK)
            self._lasting.reset()
            self._judge.reset()
            self.instruments.reset()  # what was learnt of them may be what is wrong
            self._ways.forget()
            self._novelty.renew()
            self._odometry.contradict()
            self._laid = False
        searching = state in (SEARCHING, LOST, OFF_MAP)
        proof = findings.peak.proof if findings.peak is not None else 0.0
        if searching and self._plan.any_heading and proof >= REFUTING:
            log.warning("the views fit, but not with the heading of the compass: it is believed no more")
            self.instruments.heading.widen()
            self._ways.forget()
            self._novelty.renew()
        borne_out = mode is not None and mode.mass >= LEADING and findings.supports is True
        self._plan.count(searching, findings.peak, borne_out)

    def _learn(self, mode: Mode, peak: Peak) -> None:
        """Correct compass and height by a registration that agrees with the track."""
        if peak.proof >= PROVEN and agree(mode, peak):
            self.instruments.see(
                peak.heading_correction_deg,
                peak.heading_sigma_deg,
                float(np.log(peak.scale_correction)),
                peak.scale_sigma,
            )

    def _weight_of(self, peak: Peak | None) -> float:
        """What a view counts for as a confirmation. One that proves nothing by itself may look like another place, and
        so will the next one that shows the same ground."""
        if self._register is None or (peak is not None and peak.proof >= CONVINCING):
            return 1.0
        return min(1.0, 2.0 * self._news)

    def _bears_out(self, findings: Findings) -> bool:
        """Whether a view was laid where the track is; where nothing is remembered, whether it says so itself."""
        if not self.settings.use_belief:
            return findings.peak is not None and findings.peak.proof >= PROVEN
        return findings.misfit is False and findings.supports is True

    def _is_proven(self, view: View | Rejection, step: Step | None) -> bool:
        """Whether geometry has had its say: now, or before odometry led on from there. A network errs the same way
        frame after frame: alone it proves nothing. Nor does a course that nobody sees any more."""
        geometry = self._register is not None
        seen = isinstance(view, View) and not self._images.repeated and not (geometry and is_blind(view))
        guided = step is not None and step.guided
        return (self._laid or not geometry) and (seen or guided)

    def _why_silent(self, view: View | Rejection, step: Step | None) -> str:
        """The nearest cause: the image, what is not known of it, or the state of the track."""
        if isinstance(view, Rejection):
            return view.reason
        if self._register is not None and is_blind(view):
            return BLIND
        if self.state != TRACKING:
            return self.state
        is_guess = self._images.repeated and (step is None or not step.guided)
        return SAME_IMAGE if is_guess else MISFIT_VIEW

    def _max_radius_m(self, view: View | Rejection) -> float:
        if self.settings.max_radius_m > 0.0:
            return self.settings.max_radius_m
        geometry = self._register is not None and not (isinstance(view, View) and is_blind(view))
        return MAX_RADIUS_M if geometry else MAX_RADIUS_CELLS * self.grid.cell_side_m
