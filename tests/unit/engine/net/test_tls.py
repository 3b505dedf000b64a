"""TLS files: what can be used, what is said of what cannot, and that changes are seen."""

import asyncio
import contextlib
import shutil
import ssl

import pytest
from readonly_engine.net.tls import ClientTls, Reloaded, TlsError, TlsFiles
from readonly_engine.net.tls_listener import TlsListener

from devstack.pulsar.security import Credentials


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    credentials = Credentials.make(tmp_path_factory.mktemp("tls"))
    credentials.certificate("first")
    credentials.certificate("second")
    return credentials


@pytest.fixture
def files(made, tmp_path):
    """Files of a server, which a test may change."""
    use(made, "first", tmp_path)
    return TlsFiles("tls", None, tmp_path / "server.pem", tmp_path / "server.key")


def use(made, name, folder):
    for kind in ("pem", "key"):
        shutil.copy(made.folder / f"{name}.{kind}", folder / f"new.{kind}")
        (folder / f"new.{kind}").rename(folder / f"server.{kind}")


def test_a_client_trusts_the_authority_it_is_given(made):
    context = TlsFiles("broker-tls", trust=made.authority).client_context()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1
    assert not TlsFiles("broker-tls", made.authority, hostname_verification=False).client_context().check_hostname


def test_a_server_asks_for_certificates_where_it_has_authorities(made, files):
    assert files.server_context().verify_mode == ssl.CERT_NONE
    asking = TlsFiles("tls", made.authority, files.certificate, files.key).server_context()
    assert asking.verify_mode == ssl.CERT_REQUIRED


def test_no_version_of_tls_that_is_broken(made, files):
    assert files.server_context().minimum_version == ssl.TLSVersion.TLSv1_2
    assert TlsFiles("tls", made.authority).client_context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_file_that_is_not_there_is_named_with_its_option(made, tmp_path):
    gone = tmp_path / "gone.pem"
    with pytest.raises(TlsError, match=r"^broker-tls-trust-certificates: .*gone\.pem cannot be used: No such file"):
        TlsFiles("broker-tls", gone).client_context()
    with pytest.raises(TlsError, match=r"^tls-certificate: .*gone\.pem cannot be read: No such file"):
        TlsFiles("tls", None, gone, gone).server_context()
    with pytest.raises(TlsError, match=r"^tls-key: .*gone\.pem cannot be read: No such file"):
        TlsFiles("tls", None, made.folder / "first.pem", gone).server_context()


def test_a_file_that_is_something_else_is_named(made, tmp_path):
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_bytes(b"\xff\x00")
    with pytest.raises(TlsError, match="it must be a file of PEM certificates"):
        TlsFiles("tls", nonsense).client_context()
    with pytest.raises(TlsError, match="a PEM certificate and its own PEM key, not encrypted"):
        TlsFiles("tls", None, made.folder / "first.pem", nonsense).server_context()


def test_files_that_cannot_be_used_leave_the_last_good_ones_in_force(made, files, tmp_path, caplog):
    reloaded = Reloaded(files.files, files.server_context)
    before = reloaded.get()
    shutil.copy(made.folder / "second.pem", tmp_path / "server.pem")  # its key is not there yet
    assert reloaded.get() is before
    assert reloaded.get() is before
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the last valid files stay in force" in caplog.text
    shutil.copy(made.folder / "second.key", tmp_path / "server.key")
    assert reloaded.get() is not before


def test_a_link_that_is_swapped_is_a_change(made, files, tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    reloaded = Reloaded([tmp_path / "link"], (tmp_path / "link").read_text)
    (tmp_path / "swap").symlink_to(tmp_path / "b")
    (tmp_path / "swap").rename(tmp_path / "link")
    assert reloaded.get() == "2"


class Greeter(asyncio.Protocol):
    def connection_made(self, transport):
        transport.write(b"hello\n")


async def shown(context, port):
    """The serial number of the certificate that a server shows, and what it says."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        said = await asyncio.wait_for(reader.readline(), 10)
        return writer.get_extra_info("peercert")["serialNumber"], said
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_a_listener_shows_the_new_certificate_and_keeps_who_is_connected(made, files, tmp_path):
    listener = TlsListener(Greeter, Reloaded(files.files, files.server_context))
    await listener.start("127.0.0.1", 0)
    port = listener.port
    client = ClientTls(TlsFiles("c", made.authority)).context()
    old, said = await shown(client, port)
    assert said == b"hello\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
    assert await reader.readline() == b"hello\n"
    use(made, "second", tmp_path)
    async with asyncio.timeout(20):
        while (await shown(client, port))[0] == old:
            await asyncio.sleep(0.1)
    assert listener.listening
    assert not reader.at_eof()
    writer.close()
    listener.close()
    assert not listener.listening
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_listener_that_asks_for_certificates_takes_none_without(made, files):
    asking = TlsFiles("tls", made.authority, files.certificate, files.key)
    listener = TlsListener(Greeter, Reloaded(asking.files, asking.server_context))
    await listener.start("127.0.0.1", 0)
    without = TlsFiles("c", made.authority).client_context()
    # With TLS 1.3 the refusal comes when the client reads.
    outcome = (await asyncio.gather(shown(without, listener.port), return_exceptions=True))[0]
    assert isinstance(outcome, OSError) or outcome[1] == b""
    with_one = TlsFiles("c", made.authority, made.folder / "first.pem", made.folder / "first.key").client_context()
    assert (await shown(with_one, listener.port))[1] == b"hello\n"
    listener.close()
