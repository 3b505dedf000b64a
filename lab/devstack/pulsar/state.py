"""The state folder of a stack: configuration, data, logs, pid files and specification."""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from devstack.common import processes
from devstack.common.locks import file_lock
from devstack.errors import DevstackError
from devstack.pulsar.spec import PulsarSpec, Setting, default_state

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

_FOLDERS: Final = ("conf", "data", "logs", "run")
_LOCK_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder of one stack.

    Attributes:
        root: absolute path of the folder, which need not exist.
    """

    root: Path

    def record(self, server: str) -> Path:
        """Return the path of a server's pid file."""
        return self.root / "run" / f"{server}.pid"

    def records(self) -> list[Path]:
        """Return all existing pid files."""
        return sorted((self.root / "run").glob("*.pid"))

    def log(self, server: str) -> Path:
        """Return the path of a server's log."""
        return self.root / "logs" / f"{server}.log"

    def conf(self, server: str) -> Path:
        """Return the path of a server's configuration file."""
        return self.root / "conf" / f"{server}.conf"

    def data(self, server: str) -> Path:
        """Return the path of a server's data folder."""
        return self.root / "data" / server

    @property
    def initialised(self) -> Path:
        """File that marks the cluster's metadata as written."""
        return self.root / "data" / "initialised"

    def make(self) -> None:
        """Make the folder and its subfolders."""
        for name in _FOLDERS:
            (self.root / name).mkdir(parents=True, exist_ok=True)

    def clear(self) -> None:
        """Delete the stack's files. The lock stays, because the caller may hold it."""
        for name in _FOLDERS:
            shutil.rmtree(self.root / name, ignore_errors=True)
        (self.root / "spec.json").unlink(missing_ok=True)

    def purge(self) -> None:
        """Delete the stack's files, and the folder if it is empty then."""
        self.clear()
        (self.root / ".lock").unlink(missing_ok=True)
        if not any(self.root.iterdir()):
            self.root.rmdir()

    def store(self, spec: PulsarSpec) -> None:
        """Store the specification of the stack."""
        partial = self.root / "spec.json.new"
        partial.write_text(json.dumps(dataclasses.asdict(spec), indent=1))
        partial.replace(self.root / "spec.json")

    def stored(self) -> PulsarSpec | None:
        """Return the stored specification; None if there is no stack.

        Raises:
            DevstackError: spec.json is damaged.
        """
        path = self.root / "spec.json"
        try:
            text = path.read_text()
        except FileNotFoundError:
            return None
        try:
            found: dict[str, Any] = json.loads(text)
            found["settings"] = tuple(Setting(**setting) for setting in found["settings"])
            return PulsarSpec(**found)
        except (ValueError, TypeError, KeyError) as error:
            raise DevstackError(
                f"{path} is damaged: {error}", "stop the stack and forget it: pulsar down --purge"
            ) from error

    def check(self, spec: PulsarSpec) -> None:
        """Raise DevstackError if the data in this folder cannot be used with a specification."""
        stored = self.stored()
        if stored is None:
            return
        which = f"--name {stored.name}" if self.root == default_state(stored.name) else f"--state {self.root}"
        forget = f"or forget its data first: pulsar down {which} --purge"
        for option, was, now in (
            ("--name", stored.name, spec.name),
            ("--version", stored.version, spec.version),
            ("--metadata", stored.metadata, spec.metadata),
            ("--apart", stored.apart, spec.apart),
            ("--metadata-servers", stored.metadata_servers, spec.metadata_servers),
            ("--base-port", stored.base_port, spec.base_port),
        ):
            if was != now:
                raise DevstackError(
                    f"{option} {now}: the stack in {self.root} was made with {was}", f"leave {option} out, {forget}"
                )
        if spec.bookies < stored.bookies:
            raise DevstackError(
                f"--bookies {spec.bookies}: the stack in {self.root} has {stored.bookies}, which hold its data",
                f"give at least {stored.bookies}, {forget}",
            )

    def running_sibling(self, spec: PulsarSpec) -> Path | None:
        """Return the folder beside this one of a running stack with the same name and ports, for another release or store.

        Tests keep their stacks running, so such a stack is the usual reason for a port that is in use.
        """
        for path in sorted(self.root.parent.glob(f"{spec.name}*")):
            folder = StateFolder(path)
            if path == self.root or not any(processes.running(record) for record in folder.records()):
                continue
            try:
                stored = folder.stored()
            except DevstackError:
                continue
            if stored is not None and (stored.name, stored.base_port) == (spec.name, spec.base_port):
                return path
        return None

    def locked(self) -> AbstractContextManager[None]:
        """Hold the folder's lock, so that only one command changes a stack at a time.

        Raises:
            DevstackError: another command holds the lock for longer than _LOCK_TIMEOUT_S.
        """
        return file_lock(self.root / ".lock", f"stack in {self.root}", _LOCK_TIMEOUT_S)


def running_stacks(folder: Path) -> list[Path]:
    """Return the state folders below a folder whose stacks have a server that runs.

    Args:
        folder: parent of state folders, such as that of `default_state`; it need not exist.
    """
    return [
        path
        for path in sorted(folder.glob("*"))
        if any(processes.running(record) for record in StateFolder(path).records())
    ]
