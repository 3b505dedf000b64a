"""Compare releases of one commit: `make -C lab release-check` builds twice, and `join` puts the architectures together."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from devstack.errors import DevstackError
from devstack.release import build, checksums, provenance
from devstack.release.outcome import MISSING, Outcome
from devstack.release.tree import export

if TYPE_CHECKING:
    from devstack.release.inputs import ReleaseInputs

_OF_ONE_MACHINE = (MISSING, provenance.FILE)
"""Files that say what one machine made: a joined release gets its own."""


def differences(first: Path, second: Path) -> list[str]:
    """Return the files that differ or that only one of two releases has; empty if both are the same."""
    one, other = checksums.digests(first), checksums.digests(second)
    return [
        f"{name}: {one.get(name, 'absent')[:12]} and {other.get(name, 'absent')[:12]}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]


def check(root: Path, inputs: ReleaseInputs, choice: build.Choice) -> Outcome:
    """Build a release twice, in different folders, and compare every file; returns what was missing in both.

    Raises:
        DevstackError: files differ; names them.
    """
    folder = root / "build"
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix=".release-check-", dir=folder) as work:
        first, second = Path(work) / "first", Path(work) / "other" / "second"
        outcome = build.build(root, inputs, first, choice)
        build.build(root, inputs, second, choice)
        found = differences(first, second)
    if found:
        raise DevstackError(
            f"release: two builds of {inputs.commit[:12]} differ in {len(found)} files", "\n  ".join(found)
        )
    return outcome


def join(root: Path, inputs: ReleaseInputs, folders: list[Path], out: Path, builder: str = "") -> Outcome:
    """Put releases of one commit by several machines into one; returns what is missing in all of them.

    Args:
        root: the checkout.
        inputs: the release's input.
        folders: releases, each complete as its SHA256SUMS says.
        out: the joined release; see `build`.
        builder: see Choice.

    Raises:
        DevstackError: a release is damaged, or two have different files of one name.
    """
    out = out.resolve()
    build.check_replaceable(out)
    outcome = Outcome()
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".release-", dir=out.parent) as work:
        made, owner = Path(work) / "made", dict[str, tuple[str, Path]]()
        made.mkdir()
        bases: dict[str, str] = {}
        for folder in folders:
            check_complete(folder)
            said = provenance.read(folder)
            if (said.commit, said.version, said.registry) != (inputs.commit, inputs.version, inputs.registry):
                raise DevstackError(
                    f"release: {folder} has version {said.version} of commit {said.commit[:12]} for {said.registry}, not "
                    f"{inputs.version} of {inputs.commit[:12]} for {inputs.registry}"
                )
            bases |= said.bases
            outcome = outcome.joined(said.outcome)
            for name, digest in checksums.read(folder).items():
                if name in _OF_ONE_MACHINE:
                    continue
                known = owner.setdefault(name, (digest, folder))
                if known[0] != digest:
                    raise DevstackError(f"release: {name} differs between {known[1]} and {folder}", "build both again")
                target = made / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(folder / name, target)
        tree = export(root, inputs, Path(work) / "tree")
        build.finish(tree, inputs, made, builder, bases, outcome)
        build.replace(made, out)
    return outcome


def check_complete(folder: Path) -> None:
    """Check a release against its checksums."""
    expected, found = checksums.read(folder), checksums.digests(folder)
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        raise DevstackError(f"release: files of {folder} are not those of its {checksums.FILE}: {', '.join(wrong[:5])}")
