"""The files of a release as `make -C lab test-release` takes them: checksums, digests of images, a folder of their own."""

import hashlib
import io
import json
import tarfile

import pytest

from devstack.errors import DevstackError
from devstack.release import checksums
from devstack.release.outcome import Outcome
from lab.tests.release.conftest import ROOT, ReleaseInputs
from longtests.release_walk import artefacts
from longtests.release_walk.__main__ import main, parser
from longtests.release_walk.artefacts import Artefacts, ImageIds

INPUTS = ReleaseInputs("0.1.0", "registry.example.com/team", "c" * 40, 1_700_000_000)


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def write_image(path, nested=False, images=1):
    """Write an archive of the OCI image layout; return digests of its manifest and configuration."""
    config = b'{"architecture": "amd64"}'
    manifest = json.dumps({"config": {"digest": digest(config)}, "layers": []}).encode()
    files = {f"blobs/{digest(one).replace(':', '/')}": one for one in (config, manifest)}
    entry = {"digest": digest(manifest)}
    if nested:
        inner = json.dumps({"manifests": [entry]}).encode()
        files[f"blobs/{digest(inner).replace(':', '/')}"] = inner
        entry = {"digest": digest(inner)}
    files["index.json"] = json.dumps({"manifests": [entry] * images}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            one = tarfile.TarInfo(name)
            one.size = len(data)
            tar.addfile(one, io.BytesIO(data))
    return ImageIds(digest(manifest), digest(config))


@pytest.fixture
def release(tmp_path):
    """A small release with chart, images, a wheel and provenance."""
    from devstack.release import provenance  # noqa: PLC0415 - beside the fixture that needs it

    folder = tmp_path / "release"
    made = Artefacts(folder, "0.1.0", "c" * 40, "amd64")
    for name in artefacts.NEEDED:
        write_image(made.image(name))
    made.chart.write_text("chart")
    (folder / "pulsar_readonly-0.1.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl").write_text("wheel")
    provenance.write(ROOT, folder, INPUTS, "", {}, Outcome())
    checksums.write(folder)
    return folder


def test_a_release_is_checked_and_opened(release):
    assert artefacts.check_sums(release) == 5
    found = artefacts.opened(release, "amd64")
    assert (found.version, found.commit) == ("0.1.0", "c" * 40)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "pulsar-readonly-0.1.0.tgz").write_text("other"),
            "pulsar-readonly-0.1.0.tgz: FAILED",
        ),
        (
            lambda folder: (folder / "pulsar-readonly-0.1.0.tgz").unlink(),
            "pulsar-readonly-0.1.0.tgz: FAILED open or read",
        ),
        (lambda folder: (folder / "images" / "new.tar").write_text("x"), "does not list: images/new.tar"),
        (lambda folder: (folder / "SHA256SUMS").unlink(), "has no SHA256SUMS"),
    ],
)
def test_a_damaged_release_is_named(release, damage, message):
    damage(release)
    with pytest.raises(DevstackError, match=message):
        artefacts.check_sums(release)


def test_a_release_without_an_image_of_this_machine_is_refused(release):
    with pytest.raises(DevstackError, match=r"lacks pulsar-readonly-engine-0\.1\.0-linux-arm64\.oci\.tar"):
        artefacts.opened(release, "arm64")


def test_a_wheel_needs_a_python_of_its_version_and_machine(release, monkeypatch):
    found = artefacts.opened(release, "amd64")
    monkeypatch.setattr(artefacts.shutil, "which", lambda name: name if name == "python3.11" else None)
    assert found.python() == "python3.11"
    monkeypatch.setattr(artefacts.shutil, "which", lambda _name: None)
    with pytest.raises(
        DevstackError, match=r"no wheel for a Python of this machine; it has pulsar_readonly-0\.1\.0-cp311"
    ):
        found.python()
    monkeypatch.setattr(artefacts.shutil, "which", lambda name: name)
    with pytest.raises(DevstackError, match="no wheel for a Python"):
        Artefacts(release, "0.1.0", "c" * 40, "arm64").python()


@pytest.mark.parametrize("nested", [False, True])
def test_the_digests_of_an_image_are_those_of_manifest_and_configuration(tmp_path, nested):
    expected = write_image(tmp_path / "a.tar", nested=nested)
    assert artefacts.ids(tmp_path / "a.tar") == expected


def test_an_archive_of_other_content_is_named(tmp_path):
    write_image(tmp_path / "two.tar", images=2)
    (tmp_path / "none.tar").write_text("no tar")
    for name in ("two.tar", "none.tar", "missing.tar"):
        with pytest.raises(DevstackError, match=f"{name} is no archive of one OCI image"):
            artefacts.ids(tmp_path / name)


def test_a_release_is_copied_into_an_empty_folder_only(release, tmp_path):
    copied = artefacts.copied(release, tmp_path / "work")
    assert checksums.digests(copied) == checksums.digests(release)
    with pytest.raises(DevstackError, match=r"--work .*work is not an empty folder"):
        artefacts.copied(release, tmp_path / "work")
    (tmp_path / "file").touch()
    with pytest.raises(DevstackError, match="is not an empty folder"):
        artefacts.check_empty(tmp_path / "file")


def test_wrong_folders_end_the_command_before_it_starts_anything(tmp_path):
    with pytest.raises(DevstackError, match="--release /none: there is no such folder"):
        main(["--release", "/none"])
    (tmp_path / "file").touch()
    with pytest.raises(DevstackError, match="is not an empty folder"):
        main(["--work", str(tmp_path)])


def test_help_names_the_options(capsys):
    with pytest.raises(SystemExit, match="0"):
        parser().parse_args(["--help"])
    assert {"--release", "--work", "--cluster", "--write"} <= set(capsys.readouterr().out.replace("[", " ").split())
