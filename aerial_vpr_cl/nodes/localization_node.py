"""The localization node: camera images in, geographic poses out, the sortie recorded for learning.

    image, fix; imu, height, camera_info, odometry, landed, initialpose  ─►  localization
    localization  ─►  ~/fix  ~/pose  ~/geo_pose  ~/odometry  ~/cells  ~/state  ~/gnss_trusted  /diagnostics
                      /tf_static  /tf  ~/viewer/…
    services          ~/record  ~/reload  ~/relocalize

Images are answered one at a time by a thread of their own, the newest first. GNSS gives labels to recorded frames and
is watched; it never touches a published position. Whatever arrives, the node goes on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from std_srvs.srv import SetBool, Trigger

from aerial_vpr_cl.errors import MissionError, StoreError
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.mission.gnss import GnssGates
from aerial_vpr_cl.mission.recorder_settings import NEVER, RecorderSettings
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.nodes import flight_health
from aerial_vpr_cl.nodes.diagnostics import INTERNAL_ERROR, FlightCounters, runtime_values
from aerial_vpr_cl.nodes.flight import Flight
from aerial_vpr_cl.nodes.flight_inputs import FlightInputs
from aerial_vpr_cl.nodes.frame_answers import Frame, FrameAnswers
from aerial_vpr_cl.nodes.frame_worker import FrameWorker
from aerial_vpr_cl.nodes.image_messages import pick_decoder
from aerial_vpr_cl.nodes.managed_node import UNCONFIGURED, ManagedNode
from aerial_vpr_cl.nodes.node_settings import FlightSettings
from aerial_vpr_cl.nodes.running import run_node
from aerial_vpr_cl.nodes.viewer.settings import ViewerSettings

PARAMETERS = {
    "": (FlightSettings, LocalizerSettings),
    "tracker": (TrackerSettings,),
    "sensors": (SensorSettings,),
    "gnss": (GnssGates,),
    "recording": (RecorderSettings,),
    "viewer": (ViewerSettings,),
}
FIXED = (*(field.name for field in dataclasses.fields(FlightSettings)), "tracker", "sensors", "gnss", "viewer")
"""Read-only parameters; the others may change in flight."""


class LocalizationNode(ManagedNode[Localizer]):
    """Answers images while it is active."""

    def __init__(self, **options: Any) -> None:
        super().__init__("localization", PARAMETERS, FIXED, self._open, **options)
        self._counters = FlightCounters()
        self._decoder_name, self._decode_raw = pick_decoder()
        self._flight: Flight | None = None
        self._answers: FrameAnswers | None = None
        self._inputs: FlightInputs | None = None
        self._worker: FrameWorker[Frame] = FrameWorker(self._answer)
        self.create_service(SetBool, "~/record", self._on_record, callback_group=self.slow)
        self.create_service(Trigger, "~/reload", self._on_reload, callback_group=self.slow)
        self.create_service(Trigger, "~/relocalize", self._on_relocalize, callback_group=self.slow)

    # Life cycle

    def _open(self, store: Path, previous: Localizer | None) -> tuple[int, Localizer]:
        flight = self.settings[FlightSettings]
        device = pick_device(flight.device)
        localizer = Localizer.open(store, device=device, runtime=flight.runtime, previous=previous)
        localizer.warm_up()
        assert localizer.generation is not None
        return localizer.generation.number, localizer

    def connect(self) -> None:
        """Begin a flight, and listen."""
        self._flight = Flight(self)
        self._answers = FrameAnswers(self, self._flight, self._decode_raw, self._counters)
        self._inputs = FlightInputs(self, self._flight, self._answers.decode, self._counters, self._worker.put)

    def disconnect(self) -> None:
        """The bag is closed, the threads end."""
        inputs, self._inputs = self._inputs, None
        if inputs is not None:
            inputs.close()
        self._worker.clear()
        flight, self._flight, self._answers = self._flight, None, None
        if flight is not None:
            flight.close()

    def pause(self) -> None:
        """A mission that is being recorded ends."""
        self._worker.clear()
        if self._flight is not None and self._flight.recorder.is_recording:
            self._flight.recorder.stop()

    def close(self) -> None:
        """Finish before the process ends."""
        super().close()
        self._worker.close()

    def _answer(self, frame: Frame) -> None:
        """In the worker's thread."""
        if (answers := self._answers) is not None:
            answers.answer(frame)

    # Services and parameters

    def _on_record(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        return _obey(response, lambda: self._record(request.data))

    def _on_reload(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return _obey(response, self._reload)

    def _on_relocalize(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return _obey(response, self._relocalize)

    def _record(self, wanted: bool) -> str:
        if self._flight is None or not self.is_active:
            raise MissionError(f"the node is {self.state}; nothing can be recorded: {self.watch.problem}")
        if wanted:
            return f"recording mission {self._flight.recorder.start().result(30.0)}"
        path = self._flight.recorder.stop().result(60.0)
        return f"mission {path}" if path else "no mission with frames was being recorded"

    def _reload(self) -> str:
        if self.state == UNCONFIGURED:
            self.start()
        else:
            self.watch.load()
        if self.watch.known is None:
            raise StoreError(self.watch.problem)
        return f"generation {self.watch.number}"

    def _relocalize(self) -> str:
        if self._flight is None or not self.is_active:
            raise StoreError(f"the node is {self.state}; there is no track")
        with self._flight.forgetting():
            self._flight.answering.relocalize()
        return "the position is forgotten; the whole map is searched"

    def each_second(self) -> None:
        """Say whether the GNSS can be trusted, and show the map to who looks."""
        if self._flight is not None and self.is_active:
            self._flight.outputs.publish_trust(self._flight.gnss.report().trusted)
            if self._flight.viewer is not None:
                self._flight.viewer.each_second()

    def settings_changed(self) -> None:
        """The recorder goes by the new settings."""
        if self._flight is not None:
            recorder = self._flight.recorder
            recorder.settings = self.settings[RecorderSettings]
            if recorder.settings.mode == NEVER and recorder.is_recording:
                recorder.stop()

    # Diagnostics

    def health(self) -> tuple[bytes, str]:
        """Level and words of the diagnostics."""
        return flight_health.health_of(self, self._flight, self._counters)

    def values(self) -> dict[str, Any]:
        """What the diagnostics say besides state and store."""
        return {
            "image decoder": self._decoder_name,
            **runtime_values(self.watch.known),
            **(self._inputs.values() if self._inputs else {}),
            **flight_health.values_of(self._flight, self._counters),
        }

    def note_error(self, what: str, error: Exception) -> None:
        """Logged and counted."""
        self._counters.add_rejection(INTERNAL_ERROR, f"{what}: {error!r}")
        super().note_error(what, error)


def _obey(response: Any, order: Callable[[], str]) -> Any:
    """Carry out an order of an operator; what it says, or what went wrong, becomes the answer."""
    try:
        response.success, response.message = True, order()
    except Exception as error:
        response.success, response.message = False, str(error) or repr(error)
    return response


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(LocalizationNode, args)
