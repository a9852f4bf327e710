"""Who vouches for a bundle: an Ed25519 signature (RFC 8032) in a file beside it. Needs `isthmus[sign]`."""

import base64
import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.files import write_whole

_PRIVATE = "expected an Ed25519 key in PEM without a password, such as `isthmus bundle sign --new-key` makes"
_PUBLIC = "expected an Ed25519 key in PEM, such as the KEY.pub that `isthmus bundle sign --new-key` makes"
_PURPOSE = b"isthmus bundle\0"  # so that a signature under something else says nothing of bundles


class SignatureError(IsthmusError, ValueError):
    """A key cannot be read, or a signature is missing or not of this bundle and key."""


def signature_file(bundle: Path) -> Path:
    """Where the signature of a bundle lies."""
    return bundle.with_name(bundle.name + ".sig")


def make_key(path: Path) -> None:
    """Write a new private key that only its owner may read, and beside it the public key as `<path>.pub`.

    Raises:
        SignatureError: a file is there already.
    """
    public = path.with_name(path.name + ".pub")
    for file in (path, public):
        if file.exists():
            raise SignatureError(f"{file} exists already; a key is never overwritten, name another file")
    key = Ed25519PrivateKey.generate()
    pem, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    write_whole(public, key.public_key().public_bytes(pem, form))


def sign(bundle: Path, key: Path) -> Path:
    """Write the signature of a bundle by a private key; returns its file."""
    try:
        secret = serialization.load_pem_private_key(_contents(key), password=None)
    except SignatureError:
        raise
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SignatureError(f"{key}: no private key that can be read; {_PRIVATE}") from None
    if not isinstance(secret, Ed25519PrivateKey):
        raise SignatureError(f"{key}: the key is a {type(secret).__name__}; {_PRIVATE}")
    file = signature_file(bundle)
    write_whole(file, base64.b64encode(secret.sign(_message(bundle))) + b"\n")
    return file


def check_signature(bundle: Path, trusted: Path) -> None:
    """Refuse a bundle that the owner of a public key has not signed; raises SignatureError saying why."""
    try:
        public = serialization.load_pem_public_key(_contents(trusted))
    except SignatureError:
        raise
    except (ValueError, UnsupportedAlgorithm):
        raise SignatureError(f"{trusted}: no public key that can be read; {_PUBLIC}") from None
    if not isinstance(public, Ed25519PublicKey):
        raise SignatureError(f"{trusted}: the key is a {type(public).__name__}; {_PUBLIC}")
    file = signature_file(bundle)
    if not file.is_file():
        raise SignatureError(f"{bundle} is not signed: there is no {file.name}; sign it with `isthmus bundle sign`")
    try:
        public.verify(base64.b64decode(_contents(file), validate=False), _message(bundle))
    except (InvalidSignature, ValueError):
        raise SignatureError(
            f"{file} is no signature of this very file by {trusted}: the bundle was changed, or somebody else signed it"
        ) from None


def _message(bundle: Path) -> bytes:
    return _PURPOSE + hashlib.sha256(_contents(bundle)).digest()


def _contents(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise SignatureError(
            f"{path}: cannot be read: it is {'a directory' if path.is_dir() else 'no regular file'}; name a file"
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise SignatureError(f"{path}: cannot be read: {error.strerror}; name a file that is there") from None
