"""The images that can be built, and what each is made from."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root, content_key
from devstack.errors import DevstackError
from devstack.pulsar.spec import DEFAULT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

PROJECT = Path(__file__).resolve().parents[3]
_WRITER_IMAGE = PROJECT / "lab" / "devstack" / "writer" / "image"
_OXIA = PROJECT / "lab" / "devstack" / "oxia"
_NOT_SOURCE = ("__pycache__", ".egg-info")


@dataclass(frozen=True, slots=True)
class Target:
    """One image.

    Attributes:
        name: what the user calls it.
        tag: its tag unless another is asked for.
        dockerfile: what it is built from.
        stage: the stage of the Dockerfile; the last by default.
        inputs: the files and folders that it depends on, besides the base image.
        context: gives the build's context for as long as it is held.
    """

    name: str
    tag: str
    dockerfile: Path
    stage: str | None
    inputs: tuple[Path, ...]
    context: Callable[[], AbstractContextManager[Path]]

    def image(self, tag: str | None = None) -> str:
        """Its full name."""
        return f"localhost/pulsar-readonly/{self.name}:{tag or self.tag}"

    def key(self, base: str) -> str:
        """Changes when the image would.

        Args:
            base: the base image and its content.
        """
        parts: list[str | Path | bytes] = [base, self.name, self.tag]
        for path in (self.dockerfile, *self.inputs):
            files = source_files(path) if path.is_dir() else [path]
            for file in files:
                parts += [str(file.relative_to(PROJECT)), file]
        return content_key(*parts)


def source_files(folder: Path) -> list[Path]:
    """The files of a folder that an image is made of: not what running or installing the sources leaves there."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".so" and not any(mark in str(path) for mark in _NOT_SOURCE)
    )


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    yield path


@contextmanager
def _pulsar_context() -> Iterator[Path]:
    """The distribution without what the source cluster never starts, as hard links where the file system allows."""
    from devstack.pulsar.distribution import ensure_distribution  # noqa: PLC0415  only this image needs it

    home = ensure_distribution(DEFAULT_VERSION)
    cache = cache_root() / "images"
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".context-", dir=cache) as folder:
        context = Path(folder)

        def link(source: str, target: str) -> None:
            try:
                os.link(source, target)
            except OSError:
                shutil.copy2(source, target)

        for part in ("bin", "conf", "lib"):
            shutil.copytree(home / part, context / "pulsar" / part, copy_function=link)
        shutil.copy2(_WRITER_IMAGE / "apply_config.py", context)
        yield context


@contextmanager
def _oxia_context() -> Iterator[Path]:
    from devstack.oxia.program import ensure_program  # noqa: PLC0415  only this image needs it

    program = ensure_program()
    with TemporaryDirectory(prefix=".context-", dir=program.parent) as folder:
        shutil.copy2(program, Path(folder) / "oxia")
        yield Path(folder)


_SPARK_JARS: Final = ("delta", "s3a")
"""Sets of jars in the spark image."""


@contextmanager
def _spark_context() -> Iterator[Path]:
    """Return the files of the build context: those of the project, and jars of Delta and S3A from Maven."""
    from devstack.jars.fetch import ensure_jars  # noqa: PLC0415  only this image needs it

    sets = [ensure_jars(name) for name in _SPARK_JARS]
    cache = cache_root() / "images"
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".context-", dir=cache) as folder:
        context = Path(folder)
        for name in ("pyproject.toml", "LICENSE", ".dockerignore"):
            shutil.copy2(PROJECT / name, context)
        built = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
        for name in ("engine", "operator", "spark", "requirements"):
            shutil.copytree(PROJECT / name, context / name, ignore=built)
        for jars in sets:
            shutil.copytree(jars, context / "jars", dirs_exist_ok=True)
        yield context


def _project(name: str, *more: str, context: Callable[[], AbstractContextManager[Path]] | None = None) -> Target:
    inputs = ["pyproject.toml", "LICENSE", ".dockerignore", "requirements/build.txt", f"requirements/{name}.txt"]
    return Target(
        name=name,
        tag="dev",
        dockerfile=PROJECT / "Dockerfile",
        stage=name,
        inputs=tuple(PROJECT / path for path in (*inputs, "engine", "operator", "spark", *more)),
        context=context or (lambda: _folder(PROJECT)),
    )


TARGETS = {
    target.name: target
    for target in (
        _project("engine"),
        _project("operator"),
        _project("spark", *(f"lab/devstack/jars/locks/{name}.sha512" for name in _SPARK_JARS), context=_spark_context),
        Target(
            name="client",
            tag="dev",
            dockerfile=PROJECT / "lab" / "devstack" / "client" / "Dockerfile",
            stage=None,
            inputs=(PROJECT / "requirements" / "client.txt",),
            context=lambda: _folder(PROJECT / "requirements"),
        ),
        Target(
            name="pulsar",
            tag=DEFAULT_VERSION,
            dockerfile=_WRITER_IMAGE / "Dockerfile",
            stage=None,
            inputs=(_WRITER_IMAGE / "apply_config.py",),
            context=_pulsar_context,
        ),
        Target(
            name="oxia",
            tag="dev",
            dockerfile=_OXIA / "image" / "Dockerfile",
            stage=None,
            inputs=(_OXIA / "src",),
            context=_oxia_context,
        ),
    )
}


ON_REQUEST = ("spark", "oxia")
"""Built only when they are named: neither the tests nor the demo on ZooKeeper start them."""


def select(name: str) -> list[Target]:
    """The targets that a name on the command line means: one, or all that demo and tests need.

    Raises:
        DevstackError: there is none of that name.
    """
    if name == "all":
        return [target for target in TARGETS.values() if target.name not in ON_REQUEST]
    if name not in TARGETS:
        raise DevstackError(f"TARGET must be all or one of {', '.join(TARGETS)}, not {name}")
    return [TARGETS[name]]


def by_image(image: str) -> str:
    """The full name of an image that was given as a target, or in part, or in full."""
    if image in TARGETS:
        return TARGETS[image].image()
    if image.startswith("localhost/"):
        return image
    return f"localhost/{image}" if ":" in image else f"localhost/{image}:latest"
