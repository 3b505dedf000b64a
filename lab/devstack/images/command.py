"""`python -m devstack image`: build the project's images and load them into the Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devstack.images.builders import build, builder, load
from devstack.images.targets import TARGETS, by_image, select

if TYPE_CHECKING:
    import argparse


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add build, load and list."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    making = commands.add_parser("build", help="build an image whose inputs have changed; prints its name")
    making.add_argument("target", metavar="TARGET", help=f"all, {', '.join(TARGETS)}")
    making.add_argument("--tag", help="its tag (default dev; Pulsar's version for pulsar)")
    making.add_argument("--load", action="store_true", help="load it into the Kubernetes too")
    making.set_defaults(run=_build)
    loading = commands.add_parser("load", help="copy an image into every node of the Kubernetes")
    loading.add_argument("image", metavar="NAME", help="a target, or an image's full name")
    loading.set_defaults(run=_load)
    listing = commands.add_parser("list", help="names and ids of the images that were built here")
    listing.set_defaults(run=_list)


def _build(args: argparse.Namespace) -> int:
    for image in build(select(args.target), args.tag):
        if args.load:
            load(image)
        print(image)
    return 0


def _load(args: argparse.Namespace) -> int:
    load(by_image(args.image))
    return 0


def _list(args: argparse.Namespace) -> int:
    del args
    for image, identity in sorted(builder().images().items()):
        if image.startswith("localhost/pulsar-readonly/"):
            print(f"{image}  {identity.removeprefix('sha256:')[:12]}")
    return 0
