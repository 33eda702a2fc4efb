"""The verb demo: a drone finds itself, learns, improves, and does not forget; every step a user's own command."""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aerial_vpr_cl.commands.figures import child_output
from aerial_vpr_cl.errors import AerialVprError, SettingsError
from aerial_vpr_cl.share import share_file
from aerial_vpr_cl.terminal import styled, table

if TYPE_CHECKING:  # ROS is imported only when nodes are about to run
    from aerial_vpr_cl.nodes.demo_drone import Drone

HELP = """The whole story in one run: build a map, train the base model, fly, land, learn; then infrared with GNSS
jammed from start to end, a learner killed in the middle, and the visible flight again: was anything forgotten?

Real nodes over real DDS in separate processes. Every step is a command that is printed before it runs, so the
output is also a tutorial."""

NEAR_M = 300.0
TRACKED_M = 50.0
SCENARIO = "config/scenarios/story.yaml"
BAR = "-" * 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument(
        "--out", type=Path, default=Path("runs/demo"), help="where everything goes (default: runs/demo)"
    )
    parser.add_argument("--scenario", type=Path, help="sorties to fly (default: the package's own)")
    parser.add_argument("--max-steps", type=int, default=60, help="most steps of base training (default: %(default)s)")
    parser.add_argument("--cycles", type=int, help="passes over a mission when learning (default: as for real)")


def run(args: argparse.Namespace) -> None:
    """Tell the story from the beginning; an earlier one in the same folder is replaced."""
    story = Story(args.out, find_scenario(args.scenario), args.max_steps, args.cycles)
    story.tell()
    args.json.write(story.results)


@dataclass
class Story:
    """The steps of the demo, in order, and what was measured."""

    out: Path
    scenario: Path
    max_steps: int = 60
    cycles: int | None = None
    flights: dict[str, Path] = field(default_factory=dict)  # sortie → bag with the node's answers
    alone: dict[str, float] = field(default_factory=dict)  # sortie and moment → recall of the network alone
    results: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @property
    def store(self) -> Path:
        """Store of the demo."""
        return self.out / "store"

    def tell(self) -> None:
        """Everything."""
        from aerial_vpr_cl.nodes.demo_drone import Drone

        _forget(self.out)
        self.out.mkdir(parents=True, exist_ok=True)
        # Nobody else's nodes hear ours, and ours hear nobody else's.
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        os.environ.setdefault("ROS_DOMAIN_ID", str(random.randrange(1, 100)))
        # Several processes share a few cores here: threads that wait must sleep, not spin.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        self.prepare()
        with Drone.started(self.store, self.cycles) as drone:
            self.visible(drone)
            self.infrared(drone)
        self.show()

    def prepare(self) -> None:
        """The ground, the sorties that will be flown over it, the map, the base model."""
        say("1. A world to fly over, four sorties, and the satellite map of a summer morning")
        bags, world = self.out / "sorties", self.out / "world.tif"
        self.user("simulate", self.scenario, "--out", bags, "--world-map", world, "--pictures", self.out / "pictures")
        self.user("build-map", world, "--out", self.store, "--footprint-m", "360")
        say("2. Before the first flight: train generation 0 on the map alone")
        self.user("train-base", self.store, "--max-steps", self.max_steps, "--exemplar-candidates", "12")

    def visible(self, drone: Drone) -> None:
        """Fly the first visible sortie, learn it, fly another one before and after."""
        say("3. The first sortie, in visible light: autumn now, and a hazy afternoon. The node follows and records it")
        self.fly(drone, "visible-1", record=True)
        self.fly(drone, "visible-2")
        self.ask_network("visible-2", "before")
        say("4. Landed. The operator calls the learner")
        drone.learn()
        self.ask_network("visible-2", "after")

    def infrared(self, drone: Drone) -> None:
        """The same at night without GNSS, with a learner that is killed once; and the visible sortie again."""
        say("5. The same ground at night, through an infrared camera, and GNSS is jammed from start to end")
        drone.camera("IR")
        self.fly(drone, "infrared-1", record=True)
        self.fly(drone, "infrared-2")
        self.ask_network("infrared-2", "before")
        say("6. Learn it, by the track that was flown - but somebody pulls the plug in the middle")
        drone.kill_learner()
        say("7. Power is back. The mission still waits; call the learner again")
        drone.learn()
        self.ask_network("infrared-2", "after")
        say("8. And the visible sortie: is it forgotten?")
        self.ask_network("visible-2", "retained")

    # What an operator does

    def user(self, verb: str, *options: object) -> None:
        """Run a verb of aerial-vpr as a user would."""
        words = [str(option) for option in options]
        print(f"\n$ aerial-vpr {verb} {shlex.join(words)}", flush=True)
        done = subprocess.run([sys.executable, "-m", "aerial_vpr_cl", verb, *words], stdout=child_output())
        if done.returncode:
            raise AerialVprError(f"aerial-vpr {verb} ended with code {done.returncode}")

    def fly(self, drone: Drone, sortie: str, *, record: bool = False) -> None:
        """Play a sortie into the topics; the node follows the drone, and records if asked to."""
        result = self.out / "flights" / sortie
        if record:
            drone.record(True)
        self.user("replay", self.bag(sortie), "--rate", "0", "--result", result)
        if record:
            drone.record(False)
        self.flights[sortie] = result

    def ask_network(self, sortie: str, moment: str) -> None:
        """What the newest network says of every frame of a sortie alone: this is what learning is for."""
        figures = self.out / "figures" / f"{sortie}-{moment}.json"
        self.user("evaluate", self.store, self.bag(sortie), "--alone", "--json", figures)
        self.alone[f"{sortie}, {moment}"] = json.loads(figures.read_text())["missions"][0]["recall"]["300"]

    def bag(self, sortie: str) -> Path:
        """The recorded sortie."""
        return self.out / "sorties" / sortie

    # What came of it

    def show(self) -> None:
        """The tables, the pictures and the page."""
        from aerial_vpr_cl.evaluation.answers import judge_answers, read_answers
        from aerial_vpr_cl.evaluation.flight_picture import draw_answers
        from aerial_vpr_cl.evaluation.score_tables import BRIEF, score_table
        from aerial_vpr_cl.knowledge.map_folder import open_map

        folder = open_map(self.store)
        tracked = {name: judge_answers(path).score for name, path in self.flights.items()}
        shown = {name: read_answers(path, projection=folder.grid.projection) for name, path in self.flights.items()}
        draw_answers(folder.satellite, shown, TRACKED_M, self.out / "flights.png")
        say("9. Everything on one page")
        page = self.out / "report.html"
        self.user("report", self.store, *map(self.bag, self.flights), "--out", page, "--title", "The demo's flights")
        self.results = {
            "page": str(page),
            "tracked": {name: found.to_dict() for name, found in tracked.items()},
            "network alone, within 300 m": self.alone,
        }
        (self.out / "results.json").write_text(json.dumps(self.results, indent=1) + "\n")
        say("What the node said in flight, before anything of the kind was learnt; infrared without GNSS")
        print(score_table(tracked, BRIEF))
        say(f"What learning is for: single frames that the network alone places within {NEAR_M:.0f} m")
        print(result_table(self.alone))
        print(f"\nLook at {page} in a browser. Pictures in {self.out}:")
        print(f"  {'flights.png':12} every answer of every flight")
        print(f"  {'pictures/':12} frames of every sortie;  {self.store / 'map' / 'map.png'}: the grid")
        print(f"\nDone in {(time.monotonic() - self.started) / 60:.1f} minutes.")


def result_table(shares: dict[str, float]) -> str:
    """Per sortie: before it was learnt, after, and after the next one was learnt too."""
    moments = ("before", "after", "retained")
    rows = []
    for sortie in ("visible-2", "infrared-2"):
        found = [shares.get(f"{sortie}, {moment}") for moment in moments]
        rows.append([sortie, *("-" if share is None else f"{share:.0%}" for share in found)])
    return table(["sortie", *moments], rows)


def find_scenario(given: Path | None) -> Path:
    """The scenario of the story: the one given, or the package's own."""
    scenario = given or share_file(SCENARIO)
    if scenario is None:
        raise SettingsError(f"{SCENARIO} is not installed; give a scenario with --scenario")
    return scenario


def say(words: str) -> None:
    """A headline."""
    print(f"\n{BAR}\n{styled(words, 'bold')}\n{BAR}", flush=True)


def _forget(out: Path) -> None:
    """Remove what an earlier demo left, and only that."""
    for name in ("sorties", "flights", "figures", "pictures", "store"):
        shutil.rmtree(out / name, ignore_errors=True)
