"""Servers of Pulsar releases that Maven has as jars only: put together with the scripts of the base release."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from devstack.cache import cache_root, content_key
from devstack.console import step
from devstack.jars.fetch import LOCKS, ensure_jars, names

_SET: Final = "pulsar-"

_BROKER_CONF: Final = (
    "# The release's own file is not in its jars. So every key has the default of the release's ServiceConfiguration.\n"
)


def assembled_versions() -> list[str]:
    """Return the releases with a set of jars."""
    return [name.removeprefix(_SET) for name in names() if name.startswith(_SET)]


def ensure_assembled(version: str, base: Path) -> Path:
    """Return the folder of a release with bin/, conf/ and lib/; make it if necessary.

    ZooKeeper and bookies get the files of the base release. The broker's file is empty, so that the release's defaults apply.

    Args:
        version: one of `assembled_versions`.
        base: folder of the base release.

    Raises:
        DevstackError: Maven is missing, or a jar is not the pinned one.
    """
    jars = ensure_jars(f"{_SET}{version}")
    key = content_key(LOCKS / f"{_SET}{version}.sha512", Path(__file__), base.name)
    home = cache_root() / "pulsar" / f"assembled-pulsar-{version}-{key}"
    if home.is_dir():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with (
        step(f"putting the servers of Pulsar {version} together"),
        tempfile.TemporaryDirectory(dir=home.parent, prefix=".assemble-") as folder,
    ):
        draft = Path(folder) / "home"
        for part in ("bin", "conf"):
            shutil.copytree(base / part, draft / part)
        (draft / "conf" / "broker.conf").write_text(_BROKER_CONF)
        (draft / "lib").symlink_to(jars)
        try:
            draft.rename(home)
        except OSError:
            if not home.is_dir():  # otherwise another process has made it meanwhile
                raise
    return home
