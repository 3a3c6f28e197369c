"""TLS over real sockets on loopback: the certificates that coordinators and workers accept and refuse."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from agentbench_core import InputError
from agentbench_workers.certificates import Certificates, make_certificates
from agentbench_workers.files import Role, check_files, read_certificates, read_key
from agentbench_workers.refusals import refusal
from agentbench_workers.tls import client_context, peer_name, server_context, valid_until

SOON = 30.0


@attrs.frozen
class Met:
    """How a connection ended on both sides: the peer's certificate or name, or the error."""

    server: Any
    client: Any


def why(error: Any) -> str:
    """What :func:`refusal` says, on one line."""
    assert isinstance(error, OSError)
    said = refusal(error)
    assert said is not None, error
    assert said.remedy
    return said.message


def meet(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> Met:
    """Connect two contexts; the server sends a byte, because it may refuse the client after its handshake."""
    results: dict[str, Any] = {}

    def serve(listener: socket.socket) -> None:
        try:
            accepted, _ = listener.accept()
            accepted.settimeout(SOON)
            with server.wrap_socket(accepted, server_side=True) as connection:
                results["server"] = connection.getpeercert()
                connection.sendall(b"!")
        except OSError as error:
            results["server"] = error

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SOON)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            plain = socket.create_connection(listener.getsockname(), SOON)
            with client.wrap_socket(plain, server_hostname=name) as connection:
                assert connection.recv(1) == b"!"
                results["client"] = (connection.version(), connection.getpeercert())
        except OSError as error:
            results["client"] = error
        thread.join(SOON)
    return Met(**results)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for loopback."""
    return make_certificates(tmp_path_factory.mktemp("made") / "certs", ["localhost", "127.0.0.1", "::1"], 2)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for loopback from another authority."""
    return make_certificates(tmp_path_factory.mktemp("made") / "certs", ["localhost"], 1)


def triple(files: Certificates, name: str, ca: Certificates | None = None) -> tuple[Path, Path, Path]:
    return (ca or files).certificate("ca"), files.certificate(name), files.key(name)


def server_of(files: Certificates) -> ssl.SSLContext:
    return server_context(*triple(files, "coordinator"))


def client_of(files: Certificates, name: str = "worker-1") -> ssl.SSLContext:
    return client_context(*triple(files, name))


def unchecked(protocol: int, ca: Certificates, pair: tuple[Path, Path] | None) -> ssl.SSLContext:
    """The context of a peer that does not check its own files, as in another program."""
    context = ssl.SSLContext(protocol)
    context.load_verify_locations(ca.certificate("ca"))
    if pair:
        context.load_cert_chain(*pair)
    return context


def pair_of(files: Certificates, name: str) -> tuple[Path, Path]:
    return files.certificate(name), files.key(name)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_worker_and_its_coordinator(files: Certificates, name: str) -> None:
    """The worker connects under each of the coordinator's names, and is identified by its own."""
    met = meet(server_of(files), client_of(files, "worker-2"), name)
    assert peer_name(met.server) == "worker-2"
    version, certificate = met.client
    assert version == "TLSv1.3"
    assert ("DNS", "localhost") in certificate["subjectAltName"]


def test_the_certificates_satisfy_strict_rules(files: Certificates) -> None:
    """Python 3.13 checks them by default (RFC 5280), so other programs accept the certificates, too."""
    server, client = server_of(files), client_of(files)
    for context in (server, client):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert peer_name(meet(server, client).server) == "worker-1"


def test_no_session_is_resumed(files: Certificates) -> None:
    """Every connection presents a certificate."""
    server = server_of(files)
    assert server.num_tickets == 0
    assert (server.minimum_version, client_of(files).minimum_version) == (ssl.TLSVersion.TLSv1_3,) * 2


def test_a_worker_as_coordinator(files: Certificates) -> None:
    """W09: Otherwise one worker could run code on the others."""
    met = meet(unchecked(ssl.PROTOCOL_TLS_SERVER, files, pair_of(files, "worker-1")), client_of(files, "worker-2"))
    assert "unsuitable certificate purpose" in str(met.client)
    assert why(met.client) == "the other side's certificate is for the other role"
    assert why(met.server) == "the other side rejected this machine's certificate, which is for the other role"
    named = make_certificates(files.directory.with_name("named"), ["worker-1"], 1)
    met = meet(unchecked(ssl.PROTOCOL_TLS_SERVER, named, pair_of(named, "worker-1")), client_of(named), "worker-1")
    assert "unsuitable certificate purpose" in str(met.client)  # even if its name is right


def test_a_coordinator_as_worker(files: Certificates) -> None:
    """The coordinator refuses it, and sends nothing to it."""
    met = meet(server_of(files), unchecked(ssl.PROTOCOL_TLS_CLIENT, files, pair_of(files, "coordinator")))
    assert "unsuitable certificate purpose" in str(met.server)
    assert why(met.server) == "the other side's certificate is for the other role"
    assert why(met.client) == "the other side rejected this machine's certificate, which is for the other role"


def test_no_certificate(files: Certificates) -> None:
    """W09: In TLS 1.3, the client's handshake ends before the server has seen its certificate."""
    met = meet(server_of(files), unchecked(ssl.PROTOCOL_TLS_CLIENT, files, None))
    assert why(met.server) == "the other side presented no certificate"
    assert why(met.client) == "the other side requires a certificate"


def test_another_authority(files: Certificates, other: Certificates) -> None:
    """W09: Both sides refuse the connection."""
    met = meet(server_of(files), unchecked(ssl.PROTOCOL_TLS_CLIENT, files, pair_of(other, "worker-1")))
    assert why(met.server) == "the other side's certificate was issued by a different authority"
    assert why(met.client) == "the other side rejected this machine's certificate, which is from a different authority"
    met = meet(server_of(other), client_of(files))
    assert why(met.client) == "the other side's certificate was issued by a different authority"
    assert why(met.server) == "the other side rejected this machine's certificate, which is from a different authority"


def test_a_worker_that_signs_others(files: Certificates, tmp_path: Path) -> None:
    """A worker is not an authority: certificates that it signs are refused, even with its own in the chain."""
    signer = (read_certificates(files.certificate("worker-1"))[0], read_key(files.key("worker-1")))
    pair = issue(tmp_path, signer, Role.COORDINATOR, "localhost")
    pair[0].write_bytes(pair[0].read_bytes() + files.certificate("worker-1").read_bytes())
    met = meet(unchecked(ssl.PROTOCOL_TLS_SERVER, files, pair), client_of(files))
    assert "certificate verify failed" in str(met.client)
    assert why(met.client).startswith("the other side's certificate was rejected: ")


def test_another_host(files: Certificates) -> None:
    """The certificate does not contain the name that the worker connects to."""
    met = meet(server_of(files), client_of(files), "other.example")
    assert "not valid for 'other.example'" in str(met.client)
    by_address = meet(server_of(files), client_of(files), "127.0.0.2")
    assert "IP address mismatch" in str(by_address.client)
    for each in (met, by_address):
        assert (
            why(each.client) == "the coordinator's certificate is not valid for the host that this worker connects to"
        )


def test_version_1_2(files: Certificates) -> None:
    """Both sides refuse the connection, even with correct certificates."""
    client = unchecked(ssl.PROTOCOL_TLS_CLIENT, files, pair_of(files, "worker-1"))
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    met = meet(server_of(files), client)
    assert why(met.server) == "the other side does not support TLS 1.3"
    server = unchecked(ssl.PROTOCOL_TLS_SERVER, files, pair_of(files, "coordinator"))
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    met = meet(server, client_of(files))
    assert why(met.client) == "the other side does not support TLS 1.3"


def test_plain_text(files: Certificates) -> None:
    """A client without TLS is refused, and receives at most an alert."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def call() -> None:
            with socket.create_connection(listener.getsockname(), SOON) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    received.append(plain.recv(100))

        thread = threading.Thread(target=call)
        thread.start()
        accepted, _ = listener.accept()
        accepted.settimeout(SOON)
        with pytest.raises(ssl.SSLError) as caught:
            server_of(files).wrap_socket(accepted, server_side=True)
        assert why(caught.value) == "the other side does not use TLS"
        accepted.close()
        thread.join(SOON)
    assert len(b"".join(received)) <= 7


Signer = tuple[x509.Certificate, Any]


def issue(
    directory: Path, signer: Signer, role: Role | None, name: str, *, starts: timedelta | None = None, days: int = 1
) -> tuple[Path, Path]:
    """A certificate and its key that the command would not create."""
    directory.mkdir(exist_ok=True)
    key, start = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC) + (starts or timedelta(days=-10))
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(signer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(datetime.now(UTC) + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    if role is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([role.value]), critical=False)
    certificate, private = directory / f"{name}.pem", directory / f"{name}.key"
    certificate.write_bytes(builder.sign(signer[1], hashes.SHA256()).public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, private


def signer_of(files: Certificates) -> Signer:
    return read_certificates(files.certificate("ca"))[0], read_key(files.key("ca"))


def test_expired_certificates(files: Certificates, tmp_path: Path) -> None:
    """The other side refuses them, and their own side refuses to start."""
    ca = files.certificate("ca")
    worker = issue(tmp_path, signer_of(files), Role.WORKER, "worker-1", days=-1)
    coordinator = issue(tmp_path, signer_of(files), Role.COORDINATOR, "localhost", days=-1)
    met = meet(server_of(files), unchecked(ssl.PROTOCOL_TLS_CLIENT, files, worker))
    assert why(met.server) == "the other side's certificate has expired"
    assert (
        why(met.client) == "the other side rejected this machine's certificate, which has expired or is not valid yet"
    )
    met = meet(unchecked(ssl.PROTOCOL_TLS_SERVER, files, coordinator), client_of(files))
    assert why(met.client) == "the other side's certificate has expired"
    for context, pair in ((client_context, worker), (server_context, coordinator)):
        with pytest.raises(InputError, match=r"\.pem expired on .* UTC\nCreate new certificates in a new directory: "):
            context(ca, *pair)
    assert valid_until(ca, worker[0]) < datetime.now(UTC) < valid_until(ca)


def test_certificates_of_the_future(files: Certificates, tmp_path: Path) -> None:
    """Usually, the clock of this machine is wrong."""
    worker = issue(tmp_path, signer_of(files), Role.WORKER, "worker-1", starts=timedelta(days=1), days=2)
    met = meet(server_of(files), unchecked(ssl.PROTOCOL_TLS_CLIENT, files, worker))
    assert why(met.server) == "the other side's certificate is not valid yet"
    with pytest.raises(InputError, match=r"is not valid before .* UTC\nCheck the clock"):
        client_context(files.certificate("ca"), *worker)


def test_certificates_without_a_role(files: Certificates, tmp_path: Path) -> None:
    """OpenSSL accepts them in both roles, so they are refused before use."""
    pair = issue(tmp_path, signer_of(files), None, "localhost")
    for context, name in ((server_context, "coordinator"), (client_context, "worker")):
        with pytest.raises(InputError, match=f"not the certificate of a {name}: its extended key usage is not set"):
            context(files.certificate("ca"), *pair)


def test_chains(files: Certificates, tmp_path: Path) -> None:
    """The authority may be part of the file."""
    chain = tmp_path / "chain.pem"
    chain.write_bytes(b"".join(files.certificate(name).read_bytes() for name in ("worker-1", "ca")))
    client = client_context(files.certificate("ca"), chain, files.key("worker-1"))
    assert peer_name(meet(server_of(files), client).server) == "worker-1"


@pytest.mark.parametrize(
    ("context", "role", "own", "peer"),
    [
        (server_context, "coordinator", "clientAuth", "worker-1"),
        (client_context, "worker", "serverAuth", "coordinator"),
    ],
)
def test_files_of_the_other_role(
    files: Certificates, context: Callable[..., object], role: str, own: str, peer: str
) -> None:
    """They are detected before anything is sent."""
    with pytest.raises(InputError) as caught:
        context(*triple(files, peer))
    assert f"is not the certificate of a {role}: its extended key usage is {own}, not " in str(caught.value)


def test_all_problems_of_the_files_at_once(files: Certificates, other: Certificates, tmp_path: Path) -> None:
    """Each problem names its file and a remedy."""
    (tmp_path / "text.key").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(InputError) as caught:
        client_context(tmp_path / "none.pem", files.certificate("coordinator"), tmp_path / "text.key")
    assert str(caught.value).splitlines() == [
        "3 problems must be fixed first",
        f"- {tmp_path}/none.pem cannot be read: No such file or directory",
        "  Correct the path or the file's permissions.",
        f"- {tmp_path}/text.key contains no readable private key in PEM format",
        "  Create new certificates in a new directory: agentbench executor certs DIR --host NAME --workers N",
        f"- {files.certificate('coordinator')} is not the certificate of a worker: its extended key usage is "
        "serverAuth, not clientAuth",
        "  Use the files that `agentbench executor certs` created for a worker.",
    ]
    with pytest.raises(InputError) as caught:
        server_context(other.certificate("ca"), files.certificate("coordinator"), other.key("coordinator"))
    assert "coordinator.key is not the private key of" in str(caught.value)
    assert f"coordinator.pem was not issued by {other.certificate('ca')}" in str(caught.value)


def test_files_that_contain_something_else(files: Certificates, tmp_path: Path) -> None:
    """Directories, nothing, certificates instead of keys, and a worker as authority."""
    ca, certificate, key = triple(files, "worker-1")
    (tmp_path / "empty").touch()
    for wrong, message in (
        ((tmp_path, certificate, key), "cannot be read: Is a directory"),
        ((ca, tmp_path / "empty", key), "empty contains no readable certificate in PEM format"),
        ((ca, key, key), "worker-1.key contains no readable certificate in PEM format"),
        ((ca, certificate, certificate), "worker-1.pem contains no readable private key in PEM format"),
        ((certificate, certificate, key), "worker-1.pem is not the certificate of a certificate authority"),
    ):
        with pytest.raises(InputError, match=message):
            check_files(*wrong, Role.WORKER)


def test_encrypted_keys(files: Certificates, tmp_path: Path) -> None:
    """OpenSSL would prompt for a password at the terminal."""
    encrypted = tmp_path / "encrypted.key"
    encryption = BestAvailableEncryption(b"secret")
    private = read_key(files.key("worker-1")).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    encrypted.write_bytes(private)
    with pytest.raises(InputError, match=r"encrypted\.key is encrypted"):
        client_context(files.certificate("ca"), files.certificate("worker-1"), encrypted)


@pytest.mark.parametrize(
    "names",
    [
        (),
        (("IP Address", "10.0.0.1"),),
        (("DNS", "a"), ("DNS", "b")),
        (("DNS", "../a"),),
        (("DNS", "a\n"),),
        (("DNS", "a" * 254),),
        (("DNS", ""),),
    ],
)
def test_peers_without_a_usable_name(names: tuple[tuple[str, str], ...]) -> None:
    """Names are shown and recorded, so they must not contain special characters."""
    with pytest.raises(InputError, match="must have one DNS name"):
        peer_name({"subjectAltName": names})
    with pytest.raises(InputError):
        peer_name({})


def test_refusals_that_httpx_reports(files: Certificates) -> None:
    """A refused worker learns of it when it reads the response: the TLS error is a cause of httpx's error."""
    refused = unchecked(ssl.PROTOCOL_TLS_CLIENT, files, pair_of(files, "coordinator"))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted, contextlib.suppress(ssl.SSLError):
                accepted.settimeout(SOON)
                server_of(files).wrap_socket(accepted, server_side=True)
                accepted.recv(1 << 16)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(httpx.TransportError) as caught:
            httpx.get(address, verify=refused, trust_env=False, timeout=SOON)
        thread.join(SOON)
    said = refusal(caught.value)
    assert said is not None
    assert said.message == "the other side rejected this machine's certificate, which is for the other role"


def test_connections_that_were_cut_are_not_refused(files: Certificates) -> None:
    """Broken connections may work the next time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            accepted.close()

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(httpx.TransportError) as cut:
            httpx.get(address, verify=client_of(files), trust_env=False, timeout=SOON)
        thread.join(SOON)
    with pytest.raises(httpx.ConnectError) as closed:
        httpx.get(address, verify=client_of(files), trust_env=False, timeout=SOON)
    assert [refusal(cut.value), refusal(closed.value)] == [None, None]
