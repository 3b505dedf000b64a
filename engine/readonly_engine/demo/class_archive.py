"""Archives of the Java classes of a stock Pulsar, with which its servers start on half the CPU.

A server loads some 10,000 classes. With class-data sharing Java maps those of an earlier run from a file instead of parsing and
verifying each again (JEP 350, since Java 13). Java checks the file's version, its own and the jars, and ignores a file that does
not fit. It also refuses a class path with a folder that has files (Java 17), and Pulsar's scripts put the folder of the logging
configuration there; so they get an empty one, and Java the file's full path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from readonly_engine.demo.distribution import cache_folder

ROLES: Final = ("zookeeper", "initialize-cluster-metadata", "bookie", "broker")
"""Commands of bin/pulsar, each with an archive of its own."""

_LOGGING: Final = "log4j2.yaml"


@dataclass(frozen=True, slots=True)
class ClassArchives:
    """The archives for one distribution and one Java.

    Attributes:
        home: folder of the distribution.
        folder: folder of the archives in the cache; it exists only with all of them.
    """

    home: Path
    folder: Path

    @classmethod
    def of(cls, home: Path) -> ClassArchives:
        """Return the archives of a distribution and of the Java that its scripts run."""
        java_home = os.environ.get("JAVA_HOME")
        java = shutil.which(f"{java_home}/bin/java" if java_home else "java")
        program = Path(java).resolve() if java else Path()
        identity = f"{home.resolve()} {program} {program.stat().st_mtime_ns}"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
        return cls(home, cache_folder() / "pulsar" / f"classes-{home.name}-{digest}")

    @property
    def recorded(self) -> bool:
        """Whether the archives exist."""
        return self.folder.is_dir()

    def environment(self, role: str, folder: Path, recording: Path | None = None) -> dict[str, str]:
        """Return the variables of Pulsar's scripts with which a server uses its archive, or writes it.

        Args:
            role: one of ROLES.
            folder: an empty folder, or one that does not exist.
            recording: folder where the server writes its archive when it ends by itself or by SIGTERM; None to use the archive.
        """
        if recording:
            classes = f"-XX:ArchiveClassesAtExit={recording}/{role}.jsa -Xlog:cds=off -Xlog:cds+dynamic=off"
        else:
            classes = f"-XX:SharedArchiveFile={self.folder}/{role}.jsa"
        # The last options of the scripts that are not the user's. Without a value there, they log each garbage collection.
        options = f"-Xlog:gc=off {classes} -Dlog4j.configurationFile={self.home / 'conf' / _LOGGING}"
        return {"PULSAR_LOG_CONF": str(folder / _LOGGING), "PULSAR_GC_LOG": options, "BOOKIE_GC_LOG": options}

    def store(self, folder: Path) -> bool:
        """Move the archives of all roles from a folder into the cache; return whether all were there."""
        if not all((folder / f"{role}.jsa").is_file() for role in ROLES):
            return False
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        partial = self.folder.with_name(f".{self.folder.name}-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(folder, partial)
        try:
            partial.rename(self.folder)
        except OSError:  # another process was first
            shutil.rmtree(partial, ignore_errors=True)
        return self.recorded
