"""aerial-vpr localize: name the position of images."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.localization.estimate import REASONS, Estimate, Rejection
from aerial_vpr_cl.localization.localizer import Localizer, LocalizerSettings, SingleFrames
from aerial_vpr_cl.localization.open_tracker import open_tracker
from aerial_vpr_cl.localization.tracker_settings import TrackerSettings
from aerial_vpr_cl.mission.photo import PhotoSettings, situation_of
from aerial_vpr_cl.model.devices import pick_device
from aerial_vpr_cl.model.runtimes.names import AUTO, RUNTIME_HELP, RUNTIMES
from aerial_vpr_cl.settings import add_arguments as add_settings
from aerial_vpr_cl.settings import from_arguments

HELP = """Name where images were taken, each for itself, by the newest generation of a store.

Prints latitude, longitude, the radius in metres that holds the true position with 95 % probability, and the confidence:
the probability of that place. JPEG, PNG or TIFF of any size; grey and 16-bit thermal images too.

Heading, height and field of view are read from the photos of drones that write them (DJI's XMP, EXIF); options go
before. Where heading or height are known the network proposes and the image is laid on the map itself; where neither
is, and with --alone, the network's cell is the answer."""


LEAST_CONFIDENCE = 0.5
"""A place that is less likely than not is no answer of the map."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of localize."""
    parser.add_argument("store", type=Path, metavar="STORE", help="directory of the store")
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="image files")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument("--runtime", choices=RUNTIMES, default=AUTO, help=RUNTIME_HELP)
    parser.add_argument("--alone", action="store_true", help="the network's cell only, as in the paper")
    add_settings(parser, LocalizerSettings, skip=["top_k"])
    add_settings(parser, PhotoSettings)


def run(args: argparse.Namespace) -> None:
    """Print one line per image."""
    settings, known = from_arguments(args, LocalizerSettings), from_arguments(args, PhotoSettings)
    localizer = Localizer.open(args.store, device=pick_device(args.device), runtime=args.runtime)
    network = SingleFrames(localizer, settings)
    least = max(settings.min_confidence, LEAST_CONFIDENCE)
    pair = open_tracker(args.store, TrackerSettings(use_belief=False, min_confidence=least), localizer=localizer)
    width = max(len(str(path)) for path in args.images)
    found: list[dict[str, Any]] = []
    print(f"{'image':{width}}  {'latitude':>11}  {'longitude':>12}  {'radius_m':>8}  confidence")
    for path in args.images:
        try:
            data = path.read_bytes()
            image = decode_compressed(data)
        except OSError as error:
            raise MissionError(f"{path}: cannot be read: {error.strerror}") from None
        except MissionError as error:
            raise MissionError(f"{path}: {error}") from None
        situation = situation_of(data, image.shape[1], image.shape[0], known)
        told = situation.heading_known or situation.height_m is not None
        answer = (pair if told and not args.alone else network).step(1, image, situation)
        print(f"{path!s:{width}}  {describe(answer, localizer)}")
        found.append({"image": path, **values_of(answer, localizer)})
    args.json.write({"images": found})


def values_of(answer: Estimate | Rejection, localizer: Localizer) -> dict[str, Any]:
    """An answer for other programs."""
    if isinstance(answer, Rejection):
        return {"reason": answer.reason, "confidence": answer.confidence}
    latitude, longitude = localizer.grid.projection.to_wgs84(answer.position)
    return {
        "latitude": float(latitude),
        "longitude": float(longitude),
        "covariance_m2": answer.covariance.tolist(),
        "radius_m": answer.radius_m,
        "confidence": answer.confidence,
    }


def describe(answer: Estimate | Rejection, localizer: Localizer) -> str:
    """An answer as the end of a line."""
    if isinstance(answer, Rejection):
        confidence = "" if answer.confidence != answer.confidence else f" ({answer.confidence:.3f})"
        return f"no position: {answer.reason}{confidence}: {REASONS[answer.reason]}"
    latitude, longitude = localizer.grid.projection.to_wgs84(answer.position)
    return f"{latitude:11.6f}  {longitude:12.6f}  {answer.radius_m:8.0f}  {answer.confidence:10.3f}"
