"""The tree that a release is built from: the commit's files alone, with the commit in the package."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from readonly_engine import build_info

from devstack.common.run import run
from devstack.release.inputs import check_versions

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.release.inputs import ReleaseInputs


def export(root: Path, inputs: ReleaseInputs, folder: Path) -> Path:
    """Write the files of the commit into a new folder, and the commit into the package; returns the folder.

    Modes and times do not depend on the checkout. Files that git does not track are left out.

    Raises:
        DevstackError: git fails, or a file of the commit has another version.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    git = ["git", "-C", str(root), "-c", "tar.umask=0022"]
    run([*git, "archive", "--format=tar", "-o", str(archive), inputs.commit], what="release: exporting the commit")
    run(
        ["tar", "-x", "--preserve-permissions", "--no-same-owner", "-f", str(archive), "-C", str(folder)],
        what="release: unpacking the commit",
    )
    archive.unlink()
    check_versions(folder, inputs.version)
    (folder / "engine" / "readonly_engine" / build_info.FILE).write_text(
        build_info.content(inputs.commit), encoding="utf-8"
    )
    return folder
