"""How a flight goes, for the diagnostics: one level with words, and everything by name."""

from __future__ import annotations

from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus

from aerial_vpr_cl.localization.gnss_watch import GnssReport
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.localization.states import STATES, TRACKING
from aerial_vpr_cl.mission.recorder import RecorderStatus
from aerial_vpr_cl.nodes.diagnostics import NO_IMAGE_S, FlightCounters, gnss_values, recording_values
from aerial_vpr_cl.nodes.flight import Flight
from aerial_vpr_cl.nodes.managed_node import ManagedNode
from aerial_vpr_cl.nodes.node_settings import COMPRESSED, SINGLE_FRAME, FlightSettings
from aerial_vpr_cl.nodes.sensor_inputs import wrong_type


def health_of(node: ManagedNode[Localizer], flight: Flight | None, counters: FlightCounters) -> tuple[bytes, str]:
    """Level and words: the first thing that an operator has to know."""
    watch = node.watch
    if watch.known is None:
        return DiagnosticStatus.ERROR, f"{node.state}: {watch.problem or 'not configured'}"
    if not node.is_active or flight is None:
        return DiagnosticStatus.WARN, node.state
    if counters.seconds_since_image > NO_IMAGE_S:
        return DiagnosticStatus.WARN, _why_no_image(node)
    if problem := watch.problem or flight.recorder.status.problem:
        return DiagnosticStatus.WARN, problem
    state = flight.answering.state
    if state not in (TRACKING, SINGLE_FRAME):
        return DiagnosticStatus.WARN, f"{state}: {STATES.get(state, state)}"
    return DiagnosticStatus.OK, f"localizing with generation {watch.number}"


def values_of(flight: Flight | None, counters: FlightCounters) -> dict[str, Any]:
    """Tracker, frames, GNSS and recorder, also before there are any."""
    return {
        "tracker": flight.answering.state if flight else "",
        "odometry": _odometry_of(flight) if flight else "",
        "TF": flight.transforms.note if flight else "",
        **counters.values(),
        **gnss_values(flight.gnss.report() if flight else GnssReport()),
        **recording_values(flight.recorder.status if flight else RecorderStatus()),
    }


def _odometry_of(flight: Flight) -> str:
    """Whether it goes with the views, as far as there is one."""
    return "believed" if flight.answering.odometry_is_believed else "left out: it goes another way than the views"


def _why_no_image(node: ManagedNode[Localizer]) -> str:
    topic, transport = node.resolve_topic_name("image"), node.settings[FlightSettings].image_transport
    wrong = wrong_type(node, topic, f"sensor_msgs/msg/{'CompressedImage' if transport == COMPRESSED else 'Image'}")
    return f"no image on {topic}" + (f": {wrong}; image_transport is '{transport}'" if wrong else "")
