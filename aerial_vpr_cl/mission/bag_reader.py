"""Messages out of any rosbag2, whole or damaged: MCAP and SQLite files, with or without metadata.yaml.

A bag may come from anywhere: whatever it holds is a flight or a MissionError, in bounded time and memory.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import yaml

from aerial_vpr_cl.errors import AerialVprError, MissionError
from aerial_vpr_cl.mission.bag_files import BagFile, DamageError, RawMessage, metadata_record, read_file
from aerial_vpr_cl.mission.bag_metadata import clean_text

log = logging.getLogger(__name__)

Options = ParamSpec("Options")
Result = TypeVar("Result")

STORAGE_SUFFIXES = (".mcap", ".db3")
MOST_METADATA_BYTES = 4 << 20
"""Of metadata.yaml; that of a long flight has some kilobytes."""


@dataclass
class Bag:
    """What a bag holds. `kept` are all messages of the types asked for at opening, by topic."""

    path: Path
    facts: dict[str, str] = field(default_factory=dict)  # custom_data: name and modality of our own bags
    types: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    kept: dict[str, list[RawMessage]] = field(default_factory=dict)
    files: list[BagFile] = field(default_factory=list, repr=False)

    def messages(self, *topics: str) -> Iterator[RawMessage]:
        """The messages of these topics in the order of the file; damage was reported when the bag was opened."""
        for file in self.files:
            try:
                yield from (message for message in read_file(file) if message.topic in topics)
            except DamageError:
                continue


def open_bag(path: str | Path, keep: Collection[str] = ()) -> Bag:
    """Look through a bag once: topics, counts, and the messages of the types in `keep`. Warns of damage."""
    path = Path(path)
    bag = Bag(path, facts_of(path), files=_files_of(path))
    unreadable = []
    for file in bag.files:
        in_file = 0
        try:
            for message in read_file(file):
                in_file += 1
                bag.types[message.topic] = message.message_type
                bag.counts[message.topic] = bag.counts.get(message.topic, 0) + 1
                if message.message_type in keep:
                    bag.kept.setdefault(message.topic, []).append(message)
        except DamageError as damage:
            if not in_file:
                unreadable.append(f"{file.path}: {damage}")
            log.warning("%s: %s; %d messages could be read and are used", file.path, damage, in_file)
    if unreadable and not bag.counts:
        raise MissionError(f"{'; '.join(unreadable)}; nothing of it can be read: use another copy of the bag")
    return bag


def faults_named(
    read: Callable[Options, Result],
) -> Callable[Options, Result]:
    """Make a MissionError of whatever the libraries trip over in an odd bag: it must not hold up other missions."""

    @functools.wraps(read)
    def named(*args: Options.args, **kwargs: Options.kwargs) -> Result:
        try:
            return read(*args, **kwargs)
        except (AerialVprError, MemoryError):
            raise
        except Exception as error:
            path = args[0] if args else kwargs.get("path")
            log.debug("%s", path, exc_info=True)
            raise MissionError(
                f"{path}: cannot be read ({type(error).__name__}: {error}); move the bag away"
            ) from error

    return named


def facts_of(path: str | Path) -> dict[str, str]:
    """Name and modality as MissionWriter noted them; empty for bags of others."""
    path = Path(path)
    custom = _metadata_of(path).get("custom_data")
    if isinstance(custom, dict) and custom:
        return {
            key: clean_text(value) for key, value in custom.items() if isinstance(key, str) and isinstance(value, str)
        }
    for file in _files_of(path):
        if facts := metadata_record(file):
            return facts
    return {}


def _files_of(path: Path) -> list[BagFile]:
    """The storage files of a bag: regular ones, for a pipe or a device would be read for ever."""
    if not path.exists():
        raise MissionError(f"{path}: no such bag; give a rosbag2 directory")
    if path.is_file():
        if path.suffix in STORAGE_SUFFIXES:
            return [BagFile(path)]
        remedy = "convert it with rosbags-convert" if path.suffix == ".bag" else "give a rosbag2 directory"
        raise MissionError(f"{path}: not a rosbag2 (.mcap or .db3); {remedy}")
    metadata = _metadata_of(path)
    mode = str(metadata.get("compression_mode") or "none").lower()
    if mode in ("file", "message") and metadata.get("compression_format") != "zstd":
        raise MissionError(f"{path}: compressed by {metadata.get('compression_format')!r}; only zstd can be read")
    ends = [f"{suffix}.zstd" if mode == "file" else suffix for suffix in STORAGE_SUFFIXES]
    listed = [path / name for name in _listed(metadata)]
    present = sorted(file for end in ends for file in path.glob(f"*{end}"))
    files = [file for file in listed or present if file.is_file()] or [file for file in present if file.is_file()]
    if not files:
        raise MissionError(f"{path}: not a rosbag2 directory, it holds no .mcap or .db3 file; give the bag's directory")
    if missing := [file.name for file in listed if not file.is_file()]:
        log.warning("%s: %s is missing; the other files are read", path, ", ".join(missing))
    return [BagFile(file, packed_messages=mode == "message") for file in files]


def _listed(metadata: dict[str, Any]) -> list[str]:
    """File names that the metadata lists, without the folders some recorders put before them."""
    names = metadata.get("relative_file_paths")
    if not isinstance(names, list):
        return []
    return [Path(clean_text(name)).name for name in names if isinstance(name, str) and "\0" not in name]


def _metadata_of(path: Path) -> dict[str, Any]:
    """rosbag2_bagfile_information of metadata.yaml; empty when there is none or it is damaged."""
    file = path / "metadata.yaml"
    if not file.is_file() or file.stat().st_size > MOST_METADATA_BYTES:
        return {}
    try:
        information = yaml.safe_load(file.read_text())["rosbag2_bagfile_information"]
    except Exception as error:  # YAML that is no date, too deep, no mapping, ...: the bag is read without it
        log.debug("%s: not used: %r", file, error)
        return {}
    return information if isinstance(information, dict) else {}
