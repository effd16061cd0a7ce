"""Seals inside files: the hash of a whole file in the place that the file keeps for it."""

import hashlib
import re

BLANK = "sealed:" + 64 * "0"
_SEAL = re.compile(rb"sealed:[0-9a-f]{64}")


def sealed(content: bytes) -> bytes:
    """Put the hash of a file, taken with ``BLANK`` in its place, where the file holds ``BLANK`` or an older seal.

    Example:
        >>> sealed(b"values " + BLANK.encode())[:22]
        b'values sealed:9bd70a89'
    """
    blank = _SEAL.sub(BLANK.encode(), content)
    return blank.replace(BLANK.encode(), f"sealed:{hashlib.sha256(blank).hexdigest()}".encode())


def is_sealed(content: bytes) -> bool:
    """Whether a file holds the hash of itself: every byte is what was written.

    Example:
        >>> is_sealed(sealed(BLANK.encode())), is_sealed(BLANK.encode()), is_sealed(b"no seal")
        (True, False, False)
    """
    return bool(_SEAL.search(content)) and content == sealed(content)
