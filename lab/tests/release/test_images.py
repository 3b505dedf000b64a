"""Images of a release: each is built with the commit's time, or is missing with a reason."""

import io
import tarfile
from pathlib import Path

import pytest

from devstack.errors import DevstackError
from devstack.images.buildah import Buildah
from devstack.release import build, checksums, images, provenance
from devstack.release.oci import ImageContent
from devstack.release.outcome import Outcome
from lab.tests.release.conftest import ROOT


class Fake:
    """A builder for amd64 that writes names.

    Args:
        time: of its entries, in seconds.
    """

    def __init__(self, time=1):
        self.time = time

    def obstacle(self, architecture):
        return None if architecture == "amd64" else "no emulation"

    def base(self):
        return "base:1", "0" * 64

    def build(self, tree, stage, image, architecture, epoch, archive):
        said = f"{stage} {image} {architecture} {epoch}".encode()
        with tarfile.open(archive, "w") as tar:
            for name in ("oci-layout", "index.json"):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime = len(said), self.time
                tar.addfile(entry, io.BytesIO(said))


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "images").mkdir(parents=True)


def test_what_can_be_built_is_built_and_the_rest_is_named(inputs, tmp_path):
    outcome = Outcome()
    bases = images.build_images(ROOT, inputs, ["amd64", "arm64"], Fake(), tmp_path / "out", outcome)
    assert bases == {"base:1": "0" * 64}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"pulsar-readonly-{name}-0.1.0-linux-amd64.oci.tar" for name in ("engine", "operator", "spark")
    ]
    with tarfile.open(tmp_path / "out" / "pulsar-readonly-engine-0.1.0-linux-amd64.oci.tar") as tar:
        text = tar.extractfile("index.json").read()
        assert {entry.mtime for entry in tar} == {1_700_000_000}
    assert text == b"engine registry.example.com/team/pulsar-readonly-engine:0.1.0 amd64 1700000000"
    assert outcome.missing == {f"image {name} for arm64": "no emulation" for name in ("engine", "operator", "spark")}
    assert outcome.made == {f"image {name} for amd64" for name in ("engine", "operator", "spark")}


def test_an_archive_does_not_depend_on_the_time_of_its_build(inputs, tmp_path):
    """buildah gives the archive's own entries the time of the build: two builds of one commit had other checksums."""
    for time in (1, 2):
        images.build_images(ROOT, inputs, ["amd64"], Fake(time), tmp_path / str(time), Outcome())
    assert checksums.digests(tmp_path / "1") == checksums.digests(tmp_path / "2")


def test_without_any_image_no_base_is_claimed(inputs, tmp_path):
    outcome = Outcome()
    assert images.build_images(ROOT, inputs, ["arm64"], Fake(), tmp_path / "out", outcome) == {}
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("asked", [True, False])
def test_without_a_builder_or_by_request_all_are_missing_with_the_reason(inputs, tmp_path, monkeypatch, asked):
    def none(_):
        raise DevstackError("image: no Docker engine runs here, and the program buildah is missing", "make system")

    monkeypatch.setattr(build, "choose", none)
    outcome = Outcome()
    choice = build.Choice(("amd64",), ("3.11",), images=asked)
    assert build._images(tmp_path, inputs, "amd64", choice, tmp_path, outcome) == {}
    assert len(outcome.missing) == 3
    assert ("buildah is missing; make system" if asked else "left out by --no-images") in outcome.text()


def test_buildah_gets_the_time_of_the_commit_and_no_layer_of_an_earlier_build(monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(
        Buildah, "_run", lambda _, command, arguments, *__: commands.append((command, arguments)) or "[]"
    )
    monkeypatch.setattr(Buildah, "images", lambda _: {"base": "sha256:" + "1" * 64})
    monkeypatch.setattr(images, "BuildahBuilder", lambda: None)
    monkeypatch.setattr(images, "ensure_base", lambda _: "base")
    builder = images.BuildahImages("amd64")
    assert builder.base() == ("base", "1" * 64)
    assert builder.obstacle("amd64") is None
    assert "run make -C lab release on a machine that is arm64" in builder.obstacle("arm64")
    builder.build(tmp_path, "engine", "registry.example.com/a:1", "amd64", 7, tmp_path / "a.tar")
    (_, bud), (_, push) = commands
    assert "--layers=false" in bud
    assert bud[bud.index("--timestamp") + 1] == "7"
    assert "SOURCE_DATE_EPOCH=7" in bud
    assert bud[bud.index("--target") + 1] == "engine"
    assert push[-1] == f"oci-archive:{tmp_path / 'a.tar'}:registry.example.com/a:1"


def test_buildx_gets_platform_time_and_a_base_by_digest(monkeypatch, tmp_path):
    digest = "2" * 64
    commands = []

    def run(argv, **_):
        commands.append(argv)
        return f'["docker.example.org/python@sha256:{digest}"]'

    monkeypatch.setattr(images, "succeeds", lambda _: True)
    monkeypatch.setattr(images, "run", run)
    monkeypatch.setattr(images, "_BINFMT", tmp_path)
    builder = images.DockerImages("amd64")
    assert "its kernel runs no programs of arm64" in builder.obstacle("arm64")
    (tmp_path / "qemu-aarch64").touch()
    assert builder.obstacle("arm64") is None
    builder.build(tmp_path, "spark", "registry.example.com/a:1", "arm64", 7, tmp_path / "a.tar")
    made = commands[-1]
    assert made[made.index("--platform") + 1] == "linux/arm64"
    assert f"BASE=docker.example.org/python@sha256:{digest}" in made
    assert "SOURCE_DATE_EPOCH=7" in made
    assert any("type=oci" in word and "rewrite-timestamp=true" in word for word in made)


def test_a_base_of_this_machine_alone_is_refused(monkeypatch):
    monkeypatch.setattr(images, "succeeds", lambda _: True)
    monkeypatch.setattr(images, "run", lambda *_, **__: "[]")
    with pytest.raises(DevstackError, match="without a digest of a registry"):
        images.DockerImages("amd64").base()


def test_docker_without_buildx_is_named(monkeypatch):
    monkeypatch.setattr(images, "succeeds", lambda _: False)
    with pytest.raises(DevstackError, match="Docker has no buildx"):
        images.DockerImages("amd64")


def test_every_stage_that_runs_pip_knows_the_time_of_the_commit():
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    running = [one for one in stages if "pip --python" in one]
    assert len(running) == 4
    assert all("PYTHONHASHSEED=0" in one and "\nARG SOURCE_DATE_EPOCH\n" in one for one in running)


MODULES = {"readonly_engine/net/_send", "readonly_spark/rows/_decode"}


def content(native=frozenset(MODULES), commit="c" * 40):
    return ImageContent("amd64", "debian-12", (), {}, {}, frozenset(native), commit)


def test_an_image_with_modules_and_commit_is_right():
    build.check_content("engine", content(), MODULES, "c" * 40)


@pytest.mark.parametrize(
    ("of", "error"),
    [
        (
            content(native=()),
            r"the image engine lacks the C modules readonly_engine/net/_send, readonly_spark/rows/_decode",
        ),
        (content(native={"readonly_engine/net/_send"}), "lacks the C modules readonly_spark/rows/_decode"),
        (content(commit=""), "the image engine is of commit unknown, not cccccccccccc"),
        (content(commit="d" * 40), "the image engine is of commit dddddddddddd, not cccccccccccc"),
    ],
)
def test_an_image_without_its_modules_or_its_commit_is_no_release(of, error):
    """The Dockerfile builds an image without a compiler, too, and only a message in its log said so."""
    with pytest.raises(DevstackError, match=error):
        build.check_content("engine", of, MODULES, "c" * 40)


def folder_of(path, name):
    path.mkdir(parents=True)
    (path / "a.txt").write_text(name)
    (path / provenance.FILE).write_text("{}")
    checksums.write(path)
    return path


def test_an_error_while_a_release_is_replaced_leaves_the_earlier_one(tmp_path, monkeypatch):
    out, made = folder_of(tmp_path / "out", "old"), folder_of(tmp_path / "work" / "made", "new")
    rename = Path.rename

    def broken(self, target):
        if self == made:
            raise OSError("no space left")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", broken)
    with pytest.raises(OSError, match="no space left"):
        build.replace(made, out)
    assert (out / "a.txt").read_text() == "old"
    monkeypatch.undo()
    build.replace(made, out)
    assert (out / "a.txt").read_text() == "new"
