"""The project's images on the engine, which reaches no package index: built on the machine, and loaded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from devstack.console import step
from devstack.images.builders import DockerBuilder, adopt, build, builder
from devstack.images.targets import PROJECT, TARGETS, select

if TYPE_CHECKING:
    from devstack.docker.engine import Engine


def load_images(engine: Engine) -> None:
    """Build the images whose sources have changed, and load those that the engine lacks.

    Raises:
        DevstackError: a build failed, or an image could not be loaded.
    """
    targets = select("all")
    build(targets)
    maker = builder()
    listing = ("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}")
    for target in targets:
        image = target.image()
        there = dict(line.split(" ", 1) for line in engine.run(*listing, what="listing images").splitlines())
        if there.get(image, "-")[:12] == maker.images()[image].removeprefix("sha256:")[:12]:
            continue
        archive = engine.root / f".{target.name}.tar"
        with step(f"loading {image} into Docker"):
            try:
                maker.save(image, archive)
                engine.run("docker", "load", "-i", str(archive), what=f"loading {image}", timeout=1800)
            finally:
                archive.unlink(missing_ok=True)
    module = (sys.executable, "-m", "devstack.docker.images", *(target.name for target in targets))
    engine.run("env", f"--chdir={PROJECT}", f"PYTHONPATH={PROJECT / 'lab'}", *module, what="recording the images")


def main(names: list[str]) -> int:
    """In the namespaces: record the loaded images as built from the present sources, so that tests do not build them again."""
    adopt(DockerBuilder(), [TARGETS[name] for name in names])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
