"""`make -C lab test-release`: install a release from its files alone, read a first message through a pool, roll back with 0 lost.

It makes a release of the commit, or takes one, and pushes its images to a registry on this machine. On a fresh local
Kubernetes it follows the pages install.md, kubernetes.md and adopt.md by their own commands, in a folder that has nothing but the
release. It runs as root, and needs no Docker engine.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root
from devstack.common.locks import file_lock
from devstack.console import say
from devstack.errors import DevstackError
from devstack.images.targets import PROJECT
from devstack.kube.layout import MAX_CLUSTERS, NUMBER_VARIABLE
from devstack.program import run_program
from devstack.registry.server import DEFAULT_PORT
from devstack.release import inputs, wheels
from longtests.faults.table import write
from longtests.release_walk.artefacts import check_empty, copied, opened
from longtests.release_walk.cluster import NAME, Cluster, check_machine
from longtests.release_walk.report import BEGIN, DOCUMENT, END, Report
from longtests.release_walk.walk import Walk, checked
from tests.support.stamp import stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

CLUSTER: Final = 3
"""Number of the walk's own cluster: the tests use 1 and 2."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="make -C lab test-release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--release", type=Path, metavar="FOLDER", help="an existing release (default: make one of the commit)"
    )
    made.add_argument(
        "--work",
        type=Path,
        metavar="FOLDER",
        help="where to walk; absent or empty, and kept (default: a temporary folder)",
    )
    made.add_argument(
        "--cluster",
        type=int,
        default=CLUSTER,
        metavar="NUMBER",
        help=f"local Kubernetes, 1 to {MAX_CLUSTERS}; it is removed at the end unless it ran before (default %(default)s)",
    )
    made.add_argument("--port", type=int, default=DEFAULT_PORT, help="of the registry (default %(default)s)")
    made.add_argument("--keep", action="store_true", help="keep the cluster and the registry")
    made.add_argument("--write", action="store_true", help="write the tables to docs/how-to/release.md")
    return made


def release_of_commit(cluster: Cluster, architecture: str) -> Path:
    """Make a release of the commit for this machine, whose images are named for the walk's registry; return its folder."""
    folder = PROJECT / "build" / "release-walk"
    version = inputs.versions(PROJECT)["pyproject.toml"]
    options = ("--architecture", architecture, "--python", wheels.PYTHONS[0])
    cluster.devstack(
        *("release", "build", "--version", version, "--registry", cluster.prefix, "--out", str(folder), *options)
    )
    return folder


def walk(args: argparse.Namespace, folder: Path) -> tuple[Report, list[str]]:
    """Walk in a folder; return the report and what is wrong.

    Args:
        args: see `parser`.
        folder: absent or empty.
    """
    check_machine()
    architecture = wheels.host_architecture()
    cluster = Cluster(args.cluster, args.port)
    release = opened(copied(args.release or release_of_commit(cluster, architecture), folder), architecture)
    report = Report(release.version, release.commit)
    say(f"{checked(report, release)} files are those of SHA256SUMS")
    try:
        cluster.up()
        wrong = Walk(release, cluster, report).run()
    except (AssertionError, subprocess.TimeoutExpired) as error:
        raise DevstackError("a command of a page failed", str(error)) from error
    finally:
        if args.keep:
            end = f"{NUMBER_VARIABLE}={args.cluster} python -m devstack kube down --purge"
            say(f"the cluster is kept: end it with {end}. The registry is kept too, until the next walk")
        else:
            cluster.down()
    return report, wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 1 if a message is lost, or something is left."""
    args = parser().parse_args(argv)
    if args.release and not args.release.is_dir():
        raise DevstackError(f"--release {args.release}: there is no such folder", "make one with: make -C lab release")
    if args.work:
        check_empty(args.work)
    folder = args.work or Path(tempfile.mkdtemp(prefix="release-walk-"))
    try:
        with file_lock(cache_root() / NAME / "lock", "test-release"):
            report, wrong = walk(args, folder)
    finally:
        if not args.work:
            shutil.rmtree(folder, ignore_errors=True)
    rows = report.rows()
    sys.stdout.write("\n".join(rows) + "\n")
    for one in wrong:
        sys.stdout.write(f"WRONG: {one}\n")
    if args.write and not wrong:
        write(DOCUMENT, [stamp(), *rows], (BEGIN, END))
    return 1 if wrong else 0


if __name__ == "__main__":
    run_program(main)
