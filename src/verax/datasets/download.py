"""Files from the network: whole and verified, or not there at all."""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 30.0
PIECE = 1 << 18

Progress = Callable[[int, int | None], None]


class DownloadError(OSError):
    """A file could not be downloaded. The message says why, and what to do instead; nothing was left behind."""


def download(url: str, to: Path, *, sha256: str | None, progress: Progress | None = None) -> Path:
    """Download a file; it appears under its name only when it is complete and verified.

    Args:
        url: Where it is; http or https.
        to: Where it goes. A file that is there already is kept if it has the checksum, and otherwise replaced.
        sha256: Its checksum, 64 hexadecimal digits; None to take what comes.
        progress: Called with the bytes received so far and the bytes in all, None where the server does not tell.

    Returns:
        ``to``.

    Raises:
        DownloadError: No network, an error from the server, a connection that breaks off, or another checksum. What
            was at ``to`` before is still there.
    """
    _check_address(url)
    if sha256 is not None and verified(to, sha256):
        return to
    try:
        with whole_or_nothing(to) as file, _opener().open(url, timeout=TIMEOUT_SECONDS) as response:
            found = _receive(response, file, progress)
            if sha256 is not None and found != sha256.lower():
                raise DownloadError(f"its sha256 is {found}, expected was {sha256.lower()}")
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
        raise DownloadError(
            f"Could not download {url}: {str(error) or type(error).__name__}. Nothing was stored. Try again; or "
            f"download it by hand and save it as {to}, or pass the path of a copy that you have."
        ) from error
    return to


def verified(path: Path, sha256: str) -> bool:
    """Whether there is a file with this checksum."""
    if len(sha256) != 64 or set(sha256.lower()) - set("0123456789abcdef"):
        raise ValueError(f"sha256: expected 64 hexadecimal digits, found {sha256!r}.")
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256.lower()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; its folder is made if need be."""
    with whole_or_nothing(path) as file:
        file.write(content)


@contextmanager
def whole_or_nothing(to: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``to`` at the end; after an error nothing of it is left."""
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(f".{to.name}.{secrets.token_hex(4)}.part")  # the same folder, as a rename needs
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(to)
    finally:
        part.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Where downloads are kept: ``verax`` in ``$XDG_CACHE_HOME``, or else in ``~/.cache``."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "verax"


def _receive(response: HTTPResponse, file: BinaryIO, progress: Progress | None) -> str:
    """Store the body piece by piece and return its checksum."""
    announced = response.headers.get("Content-Length")
    total = int(announced) if announced and announced.isdigit() else None
    digest, received = hashlib.sha256(), 0
    while piece := response.read(PIECE):
        file.write(piece)
        digest.update(piece)
        received += len(piece)
        if progress is not None:
            progress(received, total)
    if total is not None and received != total:  # http.client ends such a body without an error
        raise DownloadError(f"the connection broke off after {received} of {total} bytes")
    return digest.hexdigest()


def _check_address(url: str) -> None:
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.netloc:
        raise ValueError(f"url: expected an http or https address, found {url!r}.")


def _opener() -> request.OpenerDirector:
    """An opener for http and https only; the usual one also follows redirects to ftp."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.UnknownHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener
