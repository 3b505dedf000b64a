"""Two versions beside each other: each builds its images by its own devstack."""

from pathlib import Path

import pytest

from longtests.second_day.conftest import devstack


@pytest.mark.parametrize("folder", ["devstack", "lab/devstack"])
def test_the_devstack_of_another_checkout_runs(tmp_path: Path, folder: str) -> None:
    """Versions before 0.1.0 have it at their top."""
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "__main__.py").write_text("import pathlib; pathlib.Path('ran').touch()\n")
    (tmp_path / folder / "__init__.py").touch()
    devstack(1, "image", "build", folder=tmp_path, timeout=60)
    assert (tmp_path / "ran").exists()
