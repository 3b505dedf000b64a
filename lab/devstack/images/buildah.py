"""buildah: builds images from Dockerfiles without a Docker engine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.cache import cache_root
from devstack.common.overlay import storage_drivers
from devstack.common.run import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CA_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
_BUILD_DEADLINE = 1800.0


class Buildah:
    """Images in a storage of our own, so that nothing else on the machine is touched.

    Args:
        root: the storage's folder; under the cache by default.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_root() / "images"

    def build(
        self,
        tag: str,
        context: Path,
        *,
        dockerfile: Path,
        target: str | None = None,
        arguments: Mapping[str, str] | None = None,
        layers: bool = True,
        timestamp: int | None = None,
    ) -> None:
        """Build one image.

        The host's certificate authorities and a pip.conf that names them are mounted while it is built: downloads in
        RUN trust what this machine trusts, and nothing of it stays in the image.

        Args:
            tag: the image's full name.
            context: the folder that COPY reads from.
            dockerfile: what is built.
            target: the stage to build; the last one by default.
            arguments: values of ARG.
            layers: keep a layer for each step, so that a later build starts after the last unchanged one.
            timestamp: time of the image and of all files that the build adds, seconds since 1970; now by default.
        """
        options = [f"--layers={str(layers).lower()}", "--isolation=chroot", "--pull-never", "-t", tag]
        options += ["-f", str(dockerfile)]
        if target:
            options += ["--target", target]
        if timestamp is not None:
            options += ["--timestamp", str(timestamp)]
        for name, value in (arguments or {}).items():
            options += ["--build-arg", f"{name}={value}"]
        for mount in self._trust():
            options += ["-v", mount]
        self._run("bud", ["-q", *options, str(context)], f"building the image {tag}", _BUILD_DEADLINE)

    def import_root(self, tag: str, archive: Path, *, command: str) -> None:
        """Make an image of one layer from a tar of a root file system."""
        what = f"making the image {tag}"
        container = self._run("from", ["scratch"], what).strip()
        self._run("add", [container, str(archive), "/"], what, _BUILD_DEADLINE)
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self._run("config", ["--env", f"PATH={path}", "--cmd", command, container], what)
        self._run("commit", ["-q", "--rm", container, tag], what, _BUILD_DEADLINE)

    def images(self) -> dict[str, str]:
        """Names and ids of all images."""
        listed = json.loads(self._run("images", ["--json"], "listing images") or "[]")
        return {name: image["id"] for image in listed or [] for name in image.get("names") or []}

    def save(self, tag: str, archive: Path) -> None:
        """Write an image as an archive that containerd can import."""
        archive.unlink(missing_ok=True)
        self._run("push", ["-q", tag, f"docker-archive:{archive}:{tag}"], f"saving {tag}", _BUILD_DEADLINE)

    def save_oci(self, tag: str, archive: Path) -> None:
        """Write an image as an archive of the OCI image layout."""
        archive.unlink(missing_ok=True)
        self._run("push", ["-q", "--format=oci", tag, f"oci-archive:{archive}:{tag}"], f"saving {tag}", _BUILD_DEADLINE)

    def _run(self, command: str, arguments: Sequence[str], what: str, timeout: float = 120) -> str:
        self.root.mkdir(parents=True, exist_ok=True)
        # A mount namespace of its own: the storage driver leaves its folder mounted on itself.
        wrapper = ["unshare", "--mount", "--propagation", "private"]
        storage = ["--root", str(self.root / "storage"), "--runroot", str(self.root / "run")]
        storage += ["--storage-driver", storage_drivers(self.root)[0]]
        env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        return run(
            [*wrapper, "buildah", *storage, command, *arguments],
            what=what,
            timeout=timeout,
            env=env,
        )

    def _trust(self) -> list[str]:
        bundle = next((path for path in _CA_BUNDLES if Path(path).exists()), None)
        if bundle is None:
            return []
        settings = self.root / "pip.conf"
        self.root.mkdir(parents=True, exist_ok=True)
        settings.write_text("[global]\ncert = /run/host-ca.crt\n")
        return [f"{bundle}:/run/host-ca.crt:ro", f"{settings}:/etc/pip.conf:ro"]
