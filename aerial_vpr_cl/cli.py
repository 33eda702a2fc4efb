"""The command line program aerial-vpr: one verb a stage; each verb is a module of commands/."""

from __future__ import annotations

import argparse
import importlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from aerial_vpr_cl import __version__
from aerial_vpr_cl.commands.figures import add_json
from aerial_vpr_cl.errors import AerialVprError
from aerial_vpr_cl.terminal import styled

VERBS = {
    "build-map": "cut a GeoTIFF into the grid and make a store",
    "train-base": "train generation 0 on the satellite map",
    "simulate": "fly simulated missions and write their bags",
    "export": "write the network for a faster runtime",
    "adapt": "learn from missions: learn, select, commit, dispose",
    "localize": "name the position of images",
    "evaluate": "measure a store on mission bags",
    "report": "write a page about flights, to look at in a browser",
    "watch": "serve a live page of what the localization node says",
    "benchmark": "compare continual-learning methods over orders and seeds",
    "inspect": "show what a store remembers",
    "rollback": "return to the previous generation",
    "replay": "play a bag into the topics and collect the poses",
    "demo": "the whole story in one run",
}
"""Verb → one line of help. The module is imported only when its verb is used, so `--help` is quick."""


def command_of(verb: str) -> ModuleType:
    """The module of a verb: `HELP`, `add_arguments(parser)` and `run(args)`."""
    return importlib.import_module(f"aerial_vpr_cl.commands.{verb.replace('-', '_')}")


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Parser of all verbs, with the options of the one that is asked for."""
    parser = argparse.ArgumentParser(
        prog="aerial-vpr", description="Visual place recognition for drones that keeps learning."
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("-v", "--verbose", action="store_true", help="log what happens inside")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb, summary in VERBS.items():
        sub = verbs.add_parser(verb, help=summary)
        if verb in argv:
            command = command_of(verb)
            sub.description = command.HELP
            sub.formatter_class = argparse.RawDescriptionHelpFormatter
            command.add_arguments(sub)
            add_json(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb. Exit code 0: done; 1: an error the user can act on; 130: interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser(argv).parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name may hold what is no text
    logging.basicConfig(level=logging.INFO if args.verbose else logging.WARNING, format="%(levelname)s %(message)s")
    try:
        with args.json.apart():
            command_of(args.verb).run(args)
    except AerialVprError as error:
        print(f"{_who(args.verb)}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{_who(args.verb)}: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{_who(args.verb)}: interrupted", file=sys.stderr)
        return 130
    return 0


def _who(verb: str) -> str:
    return styled(f"aerial-vpr {verb}", "red", sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
