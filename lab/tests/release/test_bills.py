"""Bills of materials: every locked package once, and the packages that an image really holds."""

import gzip
import hashlib
import io
import json
import re
import tarfile

import pytest

from devstack.errors import DevstackError
from devstack.release import lockfile, oci, sbom
from devstack.release.inputs import IMAGES
from lab.tests.release.conftest import ROOT

LOCK = """\
Some_Name==1.0+local \\
    --hash=sha256:00 \\
    --hash=sha256:01
    # via
    #   pulsar-readonly (pyproject.toml)
    #   needing
needing[extra]==2.0 ; python_version >= '3.11' \\
    --hash=sha256:02
    # via pulsar-readonly (pyproject.toml)
"""


def test_a_lock_is_read_with_what_needs_what():
    found = lockfile.parse(LOCK, "a.txt")
    assert found["some-name"] == lockfile.LockedPackage(
        "some-name", "1.0+local", frozenset({"pulsar-readonly", "needing"})
    )
    assert found["needing"].version == "2.0"


@pytest.mark.parametrize(
    "line", ["a>=1", "-r other.txt", "a @ https://example.org/a.whl", "a==1\nA==2", "--index-url x"]
)
def test_a_line_that_a_bill_would_not_have_is_named(line):
    with pytest.raises(DevstackError, match=r"line [12] of a\.txt is not one package"):
        lockfile.parse(line, "a.txt")


@pytest.mark.parametrize("part", IMAGES)
def test_the_bill_of_a_lock_has_every_package_once(inputs, part):
    path = ROOT / "requirements" / f"{part}.txt"
    pinned = set(re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s;\\]+)", path.read_text(), re.MULTILINE))
    made = json.loads(sbom.of_lock(inputs, part, lockfile.read(path)))
    assert {(one["name"], one["version"]) for one in made["components"]} == {
        (lockfile.normalized(name), version) for name, version in pinned
    }
    assert len(made["components"]) == len(pinned) > 5
    refs = {one["bom-ref"] for one in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    assert {one["ref"] for one in made["dependencies"]} == refs
    needed = {ref for one in made["dependencies"] for ref in one["dependsOn"]}
    assert needed == refs - {"pkg:pypi/pulsar-readonly@0.1.0"}, "each package has something that needs it"


def test_a_bill_is_the_same_each_time_and_says_when_and_of_which_commit(inputs):
    locked = lockfile.parse(LOCK, "a.txt")
    text = sbom.of_lock(inputs, "engine", locked)
    assert text == sbom.of_lock(inputs, "engine", dict(reversed(locked.items())))
    made = json.loads(text)
    assert (made["bomFormat"], made["specVersion"], made["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", made["serialNumber"])
    assert made["serialNumber"] != json.loads(sbom.of_lock(inputs, "spark", locked))["serialNumber"]
    assert made["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert made["metadata"]["properties"] == [{"name": "pulsar-readonly:commit", "value": inputs.commit}]
    assert made["components"][1]["purl"] == "pkg:pypi/some-name@1.0%2Blocal"


def test_a_lock_that_lacks_a_package_gives_no_bill(inputs):
    locked = lockfile.parse("a==1\n    # via b\n", "a.txt")
    with pytest.raises(DevstackError, match=r"requirements/engine\.txt says that b needs a, and lacks it"):
        sbom.of_lock(inputs, "engine", locked)


def layer(files, *, packed=True):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(plain.getvalue()) if packed else plain.getvalue()


def image(path, *layers, nested=False, count=1):
    """An archive of the OCI image layout."""
    blobs = {}

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}"}

    def pack(body):
        return blob(json.dumps(body).encode())

    manifest = pack({"config": pack({"architecture": "amd64"}), "layers": [blob(one) for one in layers]})
    index = {"manifests": [manifest] * count}
    if nested:
        index = {"manifests": [pack(index)]}
    with tarfile.open(path, "w") as tar:
        for name, data in {"index.json": json.dumps(index).encode(), **blobs}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


SITE = "venv/lib/python3.11/site-packages"
STATUS = """\
Package: zlib1g
Status: install ok installed
Architecture: amd64
Version: 1:1.2.13+dfsg-1

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: adduser
Status: install ok installed
Architecture: all
Version: 3.134
"""


def metadata(name, version):
    return {
        f"{SITE}/{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\n"
    }


BASE = {"var/lib/dpkg/status": STATUS, "./usr/lib/os-release": 'ID=debian\nVERSION_ID="12"\n'}
VENV = {**metadata("Some_Name", "1.0+local"), **metadata("needing", "2.0"), **metadata("pulsar-readonly", "0.1.0")}


@pytest.mark.parametrize("nested", [False, True])
def test_the_bill_of_an_image_has_what_its_layers_hold(inputs, tmp_path, nested):
    jars = {"opt/pulsar-readonly/jars/delta.jar": "jar"}
    archive = image(tmp_path / "a.tar", layer(BASE), layer({**VENV, **jars}, packed=False), nested=nested)
    content = oci.read(archive)
    sbom.check_image("engine", "0.1.0", content, lockfile.parse(LOCK, "engine.txt"))
    made = json.loads(sbom.of_image(inputs, "engine", content))
    assert {one.get("purl", one["name"]) for one in made["components"]} == {
        "pkg:deb/debian/adduser@3.134?arch=all&distro=debian-12",
        "pkg:deb/debian/zlib1g@1%3A1.2.13%2Bdfsg-1?arch=amd64&distro=debian-12",
        "pkg:pypi/needing@2.0",
        "pkg:pypi/pulsar-readonly@0.1.0",
        "pkg:pypi/some-name@1.0%2Blocal",
        "delta.jar",
    }
    (jar,) = [one for one in made["components"] if one["type"] == "file"]
    assert jar["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"jar").hexdigest()}]
    assert made["metadata"]["component"]["name"] == "registry.example.com/team/pulsar-readonly-engine"


def test_what_a_later_layer_removes_is_in_no_bill(tmp_path):
    gone = {f"{SITE}/.wh.needing-2.0.dist-info": "", "var/lib/dpkg/.wh.status": ""}
    content = oci.read(image(tmp_path / "a.tar", layer(BASE), layer(VENV), layer(gone)))
    assert (set(content.python), content.debian) == ({"some-name", "pulsar-readonly"}, ())
    opaque = {"venv/.wh..wh..opq": "", **metadata("new", "1")}
    content = oci.read(image(tmp_path / "b.tar", layer(BASE), layer(VENV), layer(opaque)))
    assert set(content.python) == {"new"}


@pytest.mark.parametrize(
    ("added", "reads"),
    [
        (metadata("stranger", "1"), r"stranger \(1 instead of not locked\)"),
        (metadata("needing", "3.0"), r"needing \(3\.0 instead of 2\.0\)"),
        ({f"{SITE}/.wh.needing-2.0.dist-info": ""}, r"needing \(not installed instead of 2\.0\)"),
    ],
)
def test_an_image_that_differs_from_its_lock_is_no_release(tmp_path, added, reads):
    content = oci.read(image(tmp_path / "a.tar", layer(VENV), layer(added)))
    with pytest.raises(DevstackError, match=reads):
        sbom.check_image("engine", "0.1.0", content, lockfile.parse(LOCK, "engine.txt"))


def test_other_archives_are_refused(tmp_path):
    with pytest.raises(DevstackError, match="no archive of one OCI image"):
        oci.read(image(tmp_path / "a.tar", layer(BASE), count=2))
    with tarfile.open(tmp_path / "b.tar", "w"):
        pass
    with pytest.raises(DevstackError, match="no archive of one OCI image"):
        oci.read(tmp_path / "b.tar")


SUFFIX = ".cpython-311-x86_64-linux-gnu.so"


def test_c_modules_and_commit_of_an_image_are_read(tmp_path):
    own = {
        f"{SITE}/readonly_engine/net/_send{SUFFIX}": "elf",
        f"{SITE}/readonly_spark/rows/_decode{SUFFIX}": "elf",
        f"{SITE}/lz4/block/_block{SUFFIX}": "elf",
        f"{SITE}/readonly_engine/build-info.json": '{"commit": "abc"}',
    }
    content = oci.read(image(tmp_path / "a.tar", layer(BASE), layer({**VENV, **own})))
    assert content.native == {"readonly_engine/net/_send", "readonly_spark/rows/_decode"}
    assert content.commit == "abc"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_an_image_with_a_damaged_build_info_has_no_commit(tmp_path, text):
    files = {**VENV, f"{SITE}/readonly_engine/build-info.json": text}
    content = oci.read(image(tmp_path / "a.tar", layer(BASE), layer(files)))
    assert (content.native, content.commit) == (frozenset(), "")


def test_a_module_that_a_layer_removes_is_not_in_the_image(tmp_path):
    name = f"{SITE}/readonly_engine/net/_send{SUFFIX}"
    removed = name.replace("_send", ".wh._send")
    content = oci.read(image(tmp_path / "a.tar", layer({**BASE, **VENV, name: "elf"}), layer({removed: ""})))
    assert content.native == frozenset()
