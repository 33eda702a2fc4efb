"""Launch files run by ROS's own launch tools, in a process of their own, as `ros2 launch` runs them."""

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAMS = ("localization_node", "learner_node", "replay_node", "autopilot_bridge_node")
RUN = """
    import sys
    from launch import LaunchDescription, LaunchService
    from launch.actions import IncludeLaunchDescription
    from launch.launch_description_sources import AnyLaunchDescriptionSource

    arguments = [tuple(word.split(":=", 1)) for word in sys.argv[2:]]
    service = LaunchService(noninteractive=True)
    source = AnyLaunchDescriptionSource(sys.argv[1])
    included = IncludeLaunchDescription(source, launch_arguments=arguments)
    service.include_launch_description(LaunchDescription([included]))
    sys.exit(service.run())
"""


def launch_is_installed() -> bool:
    # This repository's own folder launch/ looks like a package without a file to anyone who stands beside it.
    specs = [importlib.util.find_spec(name) for name in ("launch", "launch_ros")]
    return all(spec is not None and spec.origin is not None for spec in specs)


def installed(prefix: Path) -> Path:
    """A prefix in which ROS finds this package's programs and files, as after `colcon build --symlink-install`."""
    share, lib = prefix / "share", prefix / "lib" / "aerial_vpr_cl"
    index = share / "ament_index" / "resource_index" / "packages"
    for folder in (index, lib):
        folder.mkdir(parents=True)
    (index / "aerial_vpr_cl").touch()
    (share / "aerial_vpr_cl").symlink_to(ROOT)
    for name in PROGRAMS:
        program = lib / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aerial_vpr_cl.nodes.entry {name} "$@"\n')
        program.chmod(0o755)
    return prefix


@contextmanager
def launch(file: str, prefix: Path, log: Path, **arguments: object) -> Iterator[subprocess.Popen]:
    """Start a launch file; what it and its nodes print goes to `log`, and none of them survives the block."""
    command = [sys.executable, "-c", textwrap.dedent(RUN), str(ROOT / "launch" / file)]
    command += [f"{name}:={value}" for name, value in arguments.items()]
    prefixes = [str(prefix), *filter(None, [os.environ.get("AMENT_PREFIX_PATH"), sys.prefix])]
    environment = {
        **os.environ,
        "AMENT_PREFIX_PATH": os.pathsep.join(prefixes),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "ROS_LOG_DIR": str(prefix / "log"),
        "OMP_NUM_THREADS": "1",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
