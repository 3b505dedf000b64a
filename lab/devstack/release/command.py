"""`python -m devstack release`: build a release, build it twice and compare, or join those of several machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from devstack.errors import DevstackError
from devstack.images.targets import PROJECT
from devstack.release import build, compare, inputs, wheels

if TYPE_CHECKING:
    import argparse

    from devstack.release.outcome import Outcome


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add build, check and join."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    building = commands.add_parser("build", help="build all artefacts that this machine can build, into a folder")
    _add_inputs(building)
    _add_choice(building)
    _add_output(building)
    building.set_defaults(run=_build)
    checking = commands.add_parser("check", help="build a release twice and compare every file")
    _add_inputs(checking)
    _add_choice(checking)
    checking.set_defaults(run=_check)
    joining = commands.add_parser(
        "join", help="put releases of one commit by machines of several architectures into one"
    )
    _add_inputs(joining)
    _add_output(joining)
    joining.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a release of one machine")
    joining.set_defaults(run=_join)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", required=True, metavar="X.Y.Z", help="version, that of all files of the commit")
    parser.add_argument(
        "--registry", required=True, metavar="REGISTRY", help="your registry, for example registry.example.com/team"
    )
    parser.add_argument("--source", default="", metavar="URI", help="the repository, for the provenance")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--architecture",
        action="append",
        choices=list(inputs.MACHINES),
        help="of wheels and images (may be repeated; default: all)",
    )
    parser.add_argument(
        "--python", action="append", choices=wheels.PYTHONS, help="Python of a wheel (may be repeated; default: all)"
    )
    parser.add_argument("--no-images", action="store_true", help="leave the images out; they are listed as missing")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", required=True, type=Path, metavar="FOLDER", help="an earlier release there is replaced"
    )
    parser.add_argument(
        "--builder", default="", metavar="URI", help="who builds, for the provenance (default: a local machine)"
    )
    parser.add_argument("--complete", action="store_true", help="fail if an artefact is missing")


def _inputs(args: argparse.Namespace) -> inputs.ReleaseInputs:
    return inputs.from_checkout(PROJECT, args.version, args.registry, args.source)


def _choice(args: argparse.Namespace, builder: str = "") -> build.Choice:
    architectures = tuple(dict.fromkeys(args.architecture or inputs.MACHINES))
    pythons = tuple(dict.fromkeys(args.python or wheels.PYTHONS))
    return build.Choice(
        architectures, pythons, images=not args.no_images, builder=inputs.parse_uri(builder, "--builder")
    )


def _build(args: argparse.Namespace) -> int:
    outcome = build.build(PROJECT, _inputs(args), args.out, _choice(args, args.builder))
    return _tell_user(args, outcome)


def _check(args: argparse.Namespace) -> int:
    made = _inputs(args)
    outcome = compare.check(PROJECT, made, _choice(args))
    print(outcome.text(), end="")
    print(f"two builds of {made.commit[:12]} have the same files")
    return 0


def _join(args: argparse.Namespace) -> int:
    outcome = compare.join(PROJECT, _inputs(args), args.folders, args.out, inputs.parse_uri(args.builder, "--builder"))
    return _tell_user(args, outcome)


def _tell_user(args: argparse.Namespace, outcome: Outcome) -> int:
    for line in build.report(args.out, outcome):
        print(line)
    if args.complete and outcome.missing:
        raise DevstackError(f"release: {len(outcome.missing)} artefacts are missing, and --complete was given")
    return 0
