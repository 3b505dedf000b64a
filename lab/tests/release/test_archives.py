"""Archives of a release: bytes depend on names and content alone. Checksums: `sha256sum --check` accepts them."""

import io
import subprocess
import tarfile

import pytest

from devstack.errors import DevstackError
from devstack.release import checksums
from devstack.release.archives import Member, folder_members, repack, repack_layout, write_tar_gz


def test_order_owner_and_time_do_not_depend_on_the_machine(tmp_path):
    first, second = tmp_path / "first.tar.gz", tmp_path / "other" / "second.tar.gz"
    one, other = Member(b"one"), Member(b"other", executable=True)
    write_tar_gz(first, {"b": one, "a/c": other}, 1_700_000_000)
    write_tar_gz(second, {"a/c": other, "b": one}, 1_700_000_000)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as tar:
        entries = tar.getmembers()
    assert [(one.name, one.mode, one.mtime, one.uid, one.gid, one.uname, one.gname) for one in entries] == [
        ("a/c", 0o755, 1_700_000_000, 0, 0, "", ""),
        ("b", 0o644, 1_700_000_000, 0, 0, "", ""),
    ]


def test_an_archive_of_another_tool_gets_the_same_bytes_at_any_time(tmp_path):
    made = []
    for number in (1, 2):
        folder = tmp_path / str(number) / "a"
        folder.mkdir(parents=True)
        (folder / "file").write_text("content")
        (folder / "file").chmod(0o600 if number == 1 else 0o664)
        path = tmp_path / f"{number}.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            tar.add(folder, "a")
        repack(path, 7 * 86400)
        made.append(path.read_bytes())
    assert made[0] == made[1]


def layout(path, names, time):
    with tarfile.open(path, "w") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.uname = time, f"user{time}"
            if name.endswith("/"):
                entry.type, entry.mode = tarfile.DIRTYPE, 0o700
                tar.addfile(entry)
            else:
                entry.size = len(name)
                tar.addfile(entry, io.BytesIO(name.encode()))
    return path


def test_an_image_layout_gets_the_same_bytes_at_any_time_and_keeps_its_files(tmp_path):
    names = ["blobs/", "blobs/sha256/", "blobs/sha256/a", "index.json", "oci-layout"]
    first, second = layout(tmp_path / "1.tar", names, 1), layout(tmp_path / "2.tar", names[::-1], 2)
    for path in (first, second):
        repack_layout(path, 7)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as tar:
        assert [entry.name for entry in tar] == [name.rstrip("/") for name in names]
        assert tar.extractfile("blobs/sha256/a").read() == b"blobs/sha256/a"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.tar", "2.tar"]


def test_a_layout_that_is_none_is_refused_and_left(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(b"none" * 1000)
    with pytest.raises(DevstackError, match=r"release: a\.tar is no archive"):
        repack_layout(path, 7)
    with tarfile.open(path, "w") as tar:
        link = tarfile.TarInfo("index.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(DevstackError, match=r"holds index\.json, which is neither"):
        repack_layout(path, 7)
    assert [one.name for one in tmp_path.iterdir()] == ["a.tar"]


def test_links_are_refused(tmp_path):
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(DevstackError, match="is a symbolic link"):
        folder_members(tmp_path)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "link", "link")
    with pytest.raises(DevstackError, match="holds link, which is neither a file nor a folder"):
        repack(tmp_path / "a.tar.gz", 0)


def test_checksums_are_what_sha256sum_checks(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a b.tar").write_bytes(b"a" * 3_000_000)
    (tmp_path / "z.txt").write_text("z")
    checksums.write(tmp_path)
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stdout) == (0, "images/a b.tar: OK\nz.txt: OK\n")
    assert checksums.read(tmp_path) == checksums.digests(tmp_path)
    checksums.write(tmp_path)
    assert "SHA256SUMS" not in checksums.read(tmp_path)


def test_names_that_the_format_cannot_hold_are_refused(tmp_path):
    (tmp_path / "a\nb").touch()
    with pytest.raises(DevstackError, match="line break"):
        checksums.write(tmp_path)


def test_a_missing_or_damaged_list_is_named(tmp_path):
    with pytest.raises(DevstackError, match="has no SHA256SUMS"):
        checksums.read(tmp_path)
    (tmp_path / "SHA256SUMS").write_text("nothing\n")
    with pytest.raises(DevstackError, match="is not 'DIGEST  NAME'"):
        checksums.read(tmp_path)
