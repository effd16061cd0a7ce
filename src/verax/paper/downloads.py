"""Downloads of bounded size, and the folder in which they and decoded images are kept."""

import contextlib
import copy
import gzip
import io
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.response import addinfourl

from verax.data.limits import MAX_GIB, max_gib


class DownloadError(OSError):
    """The data could not be downloaded. The message says why, and what to do instead; nothing was left behind."""


class _Bounded(urllib.request.BaseHandler):
    """Reads each answer up to the limit, unpacked, before anybody else sees it."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:
        """The same answer from memory; errors and redirections are left to others."""
        if response.code != 200:
            return response
        packed = response.headers.get("Content-Encoding", "").lower() == "gzip"
        limit = int(max_gib() * 2**30)
        content = (gzip.GzipFile(fileobj=response) if packed else response).read(limit + 1)
        if len(content) > limit:
            raise DownloadError(
                f"{request.full_url} sends more than the limit of {max_gib():g} GiB; set {MAX_GIB} to raise it"
            )
        del response.headers["Content-Encoding"]
        answer: Any = addinfourl(io.BytesIO(content), response.headers, request.full_url, response.code)
        answer.msg = response.msg  # what urllib's own handlers ask for
        return answer

    https_response = http_response


@contextlib.contextmanager
def bounded_downloads() -> Iterator[None]:
    """Bound what ``urllib.request.urlopen`` reads, in whatever library calls it, beside the handlers in use."""
    before = getattr(urllib.request, "_opener", None)  # there is a public way to set it, but none to ask for it
    bounded = urllib.request.build_opener() if before is None else urllib.request.OpenerDirector()
    for handler in [] if before is None else before.handlers:
        bounded.add_handler(copy.copy(handler))  # each knows its opener
    bounded.add_handler(_Bounded())
    urllib.request.install_opener(bounded)
    try:
        yield
    finally:
        urllib.request.install_opener(before)


def cache_folder() -> Path:
    """The folder ``verax`` in ``$XDG_CACHE_HOME``, or else in ``~/.cache``."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (folder if folder.is_absolute() else Path.home() / ".cache") / "verax"
