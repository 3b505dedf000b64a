"""A damaged archive in the cache is noticed and fetched again, with the real Maven."""

import hashlib
from pathlib import Path

import pytest

from devstack.pulsar.distribution import checksums, ensure_distribution, ensure_tarball
from devstack.pulsar.spec import STOCK_VERSION

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]


def test_a_damaged_archive_is_fetched_again_and_unpacked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path))
    damaged = tmp_path / "downloads" / f"pulsar-server-distribution-{STOCK_VERSION}-bin.tar.gz"
    damaged.parent.mkdir()
    damaged.write_bytes(b"\x1f\x8b half a download")
    home = ensure_distribution(STOCK_VERSION)
    assert "damaged" in capsys.readouterr().err
    assert (home / "bin" / "pulsar").stat().st_mode & 0o111
    assert list((home / "lib").glob(f"*pulsar-broker-{STOCK_VERSION}.jar"))
    assert ensure_tarball(STOCK_VERSION) == damaged
    with damaged.open("rb") as file:
        assert hashlib.file_digest(file, "sha512").hexdigest() == checksums()[STOCK_VERSION]
    assert sorted(path.name for path in damaged.parent.iterdir()) == [damaged.name]
    assert ensure_distribution(STOCK_VERSION) == home
