"""`make -C lab releases`: what consumers see of two releases of Pulsar at their own defaults, each as owners of their topics."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from devstack.console import say
from devstack.program import run_program
from devstack.pulsar.assembled import assembled_versions
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting
from longtests.faults.table import write
from longtests.releases.observe import EXTENSIBLE, SUBJECTS
from longtests.releases.table import BEGIN, END, Observed, table
from tests.support.stamp import stamp

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "reference" / "releases.md"
BASE_PORT: Final = 26650


EXTENSIBLE_LOAD_MANAGER: Final = Setting(
    "broker", "loadManagerClassName", "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
)


def observe(version: str) -> Observed:
    """Start a release with each load manager and else an empty configuration, and observe each subject."""
    seen: dict[str, str] = {}
    settings: dict[str, str] = {}
    for subjects, changed in ((SUBJECTS, ()), (EXTENSIBLE, (EXTENSIBLE_LOAD_MANAGER,))):
        spec = PulsarSpec(
            name="releases", version=version, base_port=BASE_PORT, bookies=1, brokers=2, quick=True, settings=changed
        )
        stack = PulsarCluster(spec)
        stack.down(purge=True)
        try:
            stack.up()
            settings = settings or stack.admin().runtime_configuration()
            for subject, look in subjects.items():
                seen[subject] = look(stack)
                say(f"{version}, {subject}: {seen[subject]}")
        finally:
            stack.down(purge=True)
    return Observed(version, seen, settings)


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 2 wrong usage."""
    versions = assembled_versions()
    parser = argparse.ArgumentParser(prog="make -C lab releases", description=__doc__)
    parser.add_argument(
        "--pair", nargs=2, choices=versions, default=[versions[0], versions[-1]], help="default: %(default)s"
    )
    parser.add_argument("--write", action="store_true", help=f"write the tables to docs/reference/{DOCUMENT.name}")
    args = parser.parse_args(argv)
    rows = table(*(observe(version) for version in args.pair))
    sys.stdout.write("\n".join(rows) + "\n")
    if args.write:
        write(DOCUMENT, [stamp(), *rows], (BEGIN, END))
    return 0


if __name__ == "__main__":
    run_program(main)
