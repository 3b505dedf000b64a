"""An entry filter for the brokers of a stack: a plug-in, packed as Pulsar's EntryFilterProvider wants it."""

import subprocess
import zipfile
from pathlib import Path
from typing import Final

from devstack.cache import cache_root
from devstack.pulsar.distribution import ensure_distribution
from devstack.pulsar.java import java_program
from devstack.pulsar.spec import DEFAULT_VERSION

NAME: Final = "only-even"
SOURCE: Final = Path(__file__).parent / "OnlyEven.java"
JAVAC_TIMEOUT_S: Final = 120.0


def filters_folder() -> Path:
    """The folder with the filter; for the broker's setting entryFiltersDirectory."""
    folder = cache_root() / "pulsar" / "test-filters"
    archive = folder / "only-even.nar"
    if archive.exists() and archive.stat().st_mtime > SOURCE.stat().st_mtime:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    home = ensure_distribution(DEFAULT_VERSION)
    compiler = f"{java_program(DEFAULT_VERSION)}c"  # that of the broker: an older one does not read its classes
    compile_it = [compiler, "--release", "17", "-cp", f"{home}/lib/*", "-d", str(folder), str(SOURCE)]
    subprocess.run(compile_it, check=True, capture_output=True, timeout=JAVAC_TIMEOUT_S)
    unfinished = folder / "only-even.part"
    with zipfile.ZipFile(unfinished, "w") as nar:
        nar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        nar.writestr(
            "META-INF/services/entry_filter.yml",
            f"name: {NAME}\ndescription: every second entry\nentryFilterClass: OnlyEven\n",
        )
        nar.writestr("META-INF/bundled-dependencies/", "")
        nar.write(folder / "OnlyEven.class", "OnlyEven.class")
    unfinished.rename(archive)
    return folder
