"""What the instruments recorded in a bag say about its frames, by the code that says it in flight."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence

from aerial_vpr_cl.errors import MissionError, SettingsError
from aerial_vpr_cl.geo.terrain import Near, Terrain
from aerial_vpr_cl.mission.bag_metadata import SENSORS_KEY
from aerial_vpr_cl.mission.bag_reader import Bag, RawMessage
from aerial_vpr_cl.mission.gnss import Fix, GnssGates, fault_of
from aerial_vpr_cl.mission.readings import AltitudeReading, Reading
from aerial_vpr_cl.mission.sensor_messages import reading_of
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.sensors import FlightSensors
from aerial_vpr_cl.mission.situation import Motion, Situation
from aerial_vpr_cl.mission.topics import sensor_topics_of
from aerial_vpr_cl.settings import load_settings

log = logging.getLogger(__name__)

CLOSEST_NS = 20_000_000
"""Readings that come faster are left out: an IMU sends hundreds a second, and frames lie between two anyway."""
LOOKAHEAD_NS = 500_000_000
"""A desk has time: a frame is asked for when the readings after it are known."""


class BagSensors:
    """The readings of a bag, heard while its messages are gone through, then asked frame by frame."""

    def __init__(
        self,
        bag: Bag,
        image_topic: str,
        settings: SensorSettings | None = None,
        *,
        north_deg: float = 0.0,
        terrain: Terrain | None = None,
        fixes: Sequence[Fix] = (),
    ) -> None:
        """Settings that are not given are those the writer of the bag noted; fixes give the altitude over terrain."""
        self.topics = [topic for topic in sensor_topics_of(bag, image_topic) if topic is not None]
        self._path = bag.path
        self._sensors = FlightSensors(settings or noted_settings(bag), north_deg=north_deg, terrain=terrain)
        self._heard: list[tuple[int, Reading | AltitudeReading]] = []
        if terrain is not None:
            good = [fix for fix in fixes if not fault_of(fix, GnssGates())]
            self._heard += [(fix.stamp_ns, AltitudeReading(fix.stamp_ns, fix.altitude)) for fix in good]
        self._newest_ns: dict[str, int] = {}

    def hear(self, raw: RawMessage) -> None:
        """Take a message of one of the topics."""
        newest_ns = self._newest_ns.get(raw.topic)
        if newest_ns is not None and 0 <= raw.received_ns - newest_ns < CLOSEST_NS:
            return
        self._newest_ns[raw.topic] = raw.received_ns
        try:
            self._heard.append((raw.received_ns, reading_of(raw.message_type, raw.data, raw.received_ns)))
        except MissionError as error:
            log.warning("%s: a message on %s is left out: %s", self._path, raw.topic, error)

    def situations(
        self, frames: Sequence[tuple[int, int, tuple[int, int], Near | None]]
    ) -> list[tuple[Situation, Motion | None]]:
        """Of frames in time order: stamp, when it was received, width and height in pixels, and where about it was."""
        waiting = sorted(self._heard, key=lambda heard: heard[0], reverse=True)
        found, problems, words = [], Counter[str](), dict[str, str]()
        for stamp_ns, received_ns, size_px, near in frames:
            while waiting and waiting[-1][0] <= received_ns + LOOKAHEAD_NS:
                self._sensors.add(waiting.pop()[1])
            found.append(self._sensors.at(stamp_ns, size_px, near))
            problems.update(self._sensors.problems.keys())
            words.update(self._sensors.problems)
        for topic, count in problems.items():
            log.warning("%s: %s is missing for %d of %d frames: %s", self._path, topic, count, len(found), words[topic])
        return found


def noted_settings(bag: Bag) -> SensorSettings:
    """What the writer of a bag noted about the drone's sensors; the defaults for bags of others."""
    noted = bag.facts.get(SENSORS_KEY)
    if not noted:
        return SensorSettings()
    try:
        return load_settings(SensorSettings, json.loads(noted))
    except (SettingsError, ValueError, TypeError) as error:
        log.warning("%s: what is noted about its sensors is not understood and left out: %s", bag.path, error)
        return SensorSettings()
