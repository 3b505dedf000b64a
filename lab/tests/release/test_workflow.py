"""The release workflow: it publishes only by a tag, with the owner's variables, and signs without a stored key."""

import argparse
import re

import pytest
import yaml

from devstack.release import command
from devstack.release.inputs import IMAGES, MACHINES
from lab.tests.release.conftest import ROOT

TEXT = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
WORKFLOW = yaml.load(TEXT, Loader=yaml.BaseLoader)  # BaseLoader: `on` is no boolean
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
SHELL = "\n".join(step["run"] for step in STEPS if "run" in step)


def test_only_a_tag_of_a_version_starts_it():
    assert WORKFLOW["on"] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}


def test_registry_and_login_are_the_owners_and_their_lack_is_an_error():
    assert WORKFLOW["env"]["REGISTRY"] == "${{ vars.RELEASE_REGISTRY }}"
    assert set(re.findall(r"secrets\.(\w+)", TEXT)) == {"RELEASE_REGISTRY_USER", "RELEASE_REGISTRY_PASSWORD"}
    assert 'test -n "$REGISTRY" ||' in SHELL
    assert 'test -n "$LOGIN" -a -n "$PASSWORD" ||' in SHELL


def test_rights_are_read_only_but_for_the_job_that_publishes():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "permissions" not in WORKFLOW["jobs"]["build"]
    assert WORKFLOW["jobs"]["publish"]["permissions"] == {"contents": "write", "id-token": "write"}


def test_signatures_are_keyless_and_for_digests():
    assert "--key" not in SHELL
    signed = re.findall(r"cosign (?:sign|attest) .*", SHELL)
    assert len(signed) == 3
    assert all("@$" in one for one in signed), "a tag may move between push and signature"
    assert "cosign sign-blob" in SHELL


def test_no_value_of_the_event_is_pasted_into_a_script():
    pasted = set(re.findall(r"\$\{\{ *([\w.]+) *\}\}", SHELL))
    assert pasted == {"matrix.architecture"}


def test_it_builds_every_architecture_on_a_machine_of_its_own():
    built = [one["architecture"] for one in WORKFLOW["jobs"]["build"]["strategy"]["matrix"]["include"]]
    assert built == list(MACHINES)
    assert re.findall(r"for name in (.*);", SHELL) == [" ".join(IMAGES)]
    assert set(re.findall(r"for architecture in (.*);", SHELL)) == {" ".join(MACHINES)}


@pytest.mark.parametrize("name", ["check", "build", "join"])
def test_its_commands_are_understood_and_fail_on_missing_artefacts(name):
    (line,) = re.findall(rf"devstack release ({name} .*)", SHELL.replace("\\\n", " "))
    line = line.replace("${{ matrix.architecture }}", "arm64").replace('"', "")
    parser = argparse.ArgumentParser()
    command.add_commands(parser)
    args = parser.parse_args(line.split())
    assert name == "check" or args.complete


def test_a_published_release_is_not_replaced():
    names = [step.get("name", step.get("uses", "")) for step in WORKFLOW["jobs"]["publish"]["steps"]]
    guard = names.index("a published release is not replaced")
    assert guard < min(
        index for index, name in enumerate(names) if name.startswith(("log in", "push", "sign", "publish"))
    )
