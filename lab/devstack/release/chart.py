"""The chart as an archive that Helm installs, with version and image names of the release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError
from devstack.release.archives import Member, folder_members

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.release.inputs import ReleaseInputs

NAME: Final = "pulsar-readonly"
_IGNORED: Final = (".helmignore",)


def chart_members(tree: Path, inputs: ReleaseInputs) -> dict[str, Member]:
    """Return the files of the chart's archive; comments of the values stay.

    Args:
        tree: the project's files.
        inputs: version and image names.

    Raises:
        DevstackError: the chart has no such value any more.
    """
    members = folder_members(tree / "charts" / NAME, f"{NAME}/")
    for name in _IGNORED:
        del members[f"{NAME}/{name}"]
    fields = {
        "Chart.yaml": {"version": inputs.version, "appVersion": inputs.version},
        "values.yaml": {"  repository": inputs.repository("operator"), "engineImage": inputs.image("engine")},
    }
    for file, values in fields.items():
        text = members[f"{NAME}/{file}"].data.decode()
        for field, value in values.items():
            text = _filled(text, field, value, file)
        members[f"{NAME}/{file}"] = Member(text.encode())
    return members


def chart_file(inputs: ReleaseInputs) -> str:
    """Return the archive's name, as `helm package` names it."""
    return f"{NAME}-{inputs.version}.tgz"


def _filled(text: str, field: str, value: str, file: str) -> str:
    """Return a YAML text with another value of one field; a comment that asks for the value goes."""
    made, count = re.subn(
        rf"^({re.escape(field)}: )\S+(?: # required.*)?(.*)$", rf'\g<1>"{value}"\2', text, flags=re.MULTILINE
    )
    if count != 1:
        raise DevstackError(f"release: {file} of the chart has the field {field.strip()} {count} times, not once")
    return made
