"""Keys of owners, and certificates of servers: files of one folder, made once.

Each is written beside its place and then put there, so a file that is there is whole. What stands
there already is left as it is.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nkeys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cobweb.errors import CobwebError

SERVERS = "servers"
"""The folder of what each server has for itself: nobody's name is in the way of the CA's."""

_YEAR = timedelta(days=365)
_CA_YEARS, _SERVER_YEARS = 20, 10
_USAGES = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
"""A server is a client of the others."""


def public_key(seed: Path) -> str:
    """Return the public key of a seed, which is made where there is none."""
    _kept(seed, lambda: nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER) + b"\n")
    try:
        key: bytes = nkeys.from_seed(bytearray(seed.read_bytes().strip())).public_key
        return key.decode()
    except (nkeys.NkeysError, ValueError) as error:
        hint = "remove it, and take back what was decided of its owner, to have another one made"
        raise CobwebError(f"{seed}: this is no key of NATS", hint=hint) from error


def publish(place: Path, key: str) -> None:
    """Have a file say a public key, for who takes it along."""
    if not place.exists() or place.read_text(encoding="utf-8").strip() != key:
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        beside.write_text(f"{key}\n", encoding="utf-8")
        beside.replace(place)


def certificate(folder: Path, host: str, names: Iterable[str], now: datetime) -> str:
    """Return the SHA-256 of the file of a server's certificate, which is made for these names."""
    authority = _authority(folder, now)
    place = folder / SERVERS / f"{host}.pem"
    key = _private_key(place.with_name(f"{host}.key"))
    wanted = [_name_of(each) for each in dict.fromkeys(names)]
    if place.exists() and not _is_of(place, authority, wanted):
        place.unlink()
    made = _kept(place, lambda: _signed(folder, authority, key, (host, wanted), now))
    return hashlib.sha256(made).hexdigest()


def _authority(folder: Path, now: datetime) -> x509.Certificate:
    """Return the certificate of the CA of a folder."""
    key = _private_key(folder / "ca.key")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Cobweb agents")])

    def make() -> bytes:
        build = _builder(name, name, key.public_key(), now, _CA_YEARS)
        build = build.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return build.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    return _certificate(_kept(folder / "ca.pem", make))


def _signed(
    folder: Path,
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    of: tuple[str, list[x509.GeneralName]],
    now: datetime,
) -> bytes:
    host, names = of
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    build = _builder(name, authority.subject, key.public_key(), now, _SERVER_YEARS)
    build = build.add_extension(x509.SubjectAlternativeName(names), critical=False)
    build = build.add_extension(x509.ExtendedKeyUsage(_USAGES), critical=False)
    build = build.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = build.sign(_private_key(folder / "ca.key"), hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, years: int
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        subject_name=name,
        issuer_name=issuer,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=1),  # clocks of hosts differ
        not_valid_after=now + years * _YEAR,
    )


def _is_of(place: Path, authority: x509.Certificate, names: list[x509.GeneralName]) -> bool:
    """Say whether a certificate is of this CA and for these names."""
    found = _certificate(place.read_bytes())
    with suppress(ValueError, TypeError, x509.ExtensionNotFound):
        found.verify_directly_issued_by(authority)
        kept = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return list(kept) == names
    return False


def _certificate(data: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError as error:
        raise CobwebError("a certificate of the agents is damaged", hint="remove it") from error


def _private_key(place: Path) -> ec.EllipticCurvePrivateKey:
    def make() -> bytes:
        return ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    try:
        found = serialization.load_pem_private_key(_kept(place, make), None)
    except ValueError:
        found = None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise CobwebError(f"{place}: a key of the agents is damaged", hint="remove it")
    return found


def _name_of(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _kept(place: Path, make: Callable[[], bytes]) -> bytes:
    """Return what a file holds, which only its owner may read; it is made where there is none."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not place.exists():
        new = place.with_name(f".{place.name}.{os.getpid()}")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # somebody else was first
            os.link(new, place)
        new.unlink()
    return place.read_bytes()


def now() -> datetime:
    """Return the time by which certificates are made."""
    return datetime.now(UTC)
