"""Object stores: how a URL is opened, how long an answer is waited for, and what errors mean.

A URL may say more than where: ``s3://KEY:SECRET@bucket/rows?endpoint_override=HOST:PORT&scheme=http``. People are shown
``s3://bucket/rows``, so that no secret gets into a message or a file.
"""

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from verax.core.packages import optional_package
from verax.datasets.array_files import first_line

_QUERY = re.compile(r"\?\w+=")  # a question mark before anything else is a wildcard
_SECRET = re.compile(r"(?<=://)[^/@]*:[^/@]*@")
_SECONDS = 5.0  # without a byte, after which a try has failed
_TRIES = 3
_REQUEST = re.compile(r" \(Request ID: .*|^.*AWS Error ")  # what says nothing to people
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|Bucket '.*' not found")
_DENIED = re.compile(r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|[Tt]oken")


def split_query(address: str) -> tuple[str, str]:
    """Split a URL from what is said of its store.

    Example:
        >>> split_query("s3://lake/part-?.parquet?region=eu-west-1")
        ('s3://lake/part-?.parquet', '?region=eu-west-1')
    """
    found = _QUERY.search(address) if "://" in address else None
    return (address, "") if found is None else (address[: found.start()], address[found.start() :])


def shown(address: str) -> str:
    """An address as people may see it.

    Example:
        >>> shown("s3://key:secret@lake/rows?region=eu-west-1"), shown("rows/*.parquet")
        ('s3://lake/rows', 'rows/*.parquet')
    """
    return _SECRET.sub("", split_query(address)[0])


@functools.cache
def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path there; opened once by each process."""
    fs = optional_package("pyarrow.fs", "verax[ray]", shown(url))
    with named(shown(url)):
        try:
            system, path = fs.FileSystem.from_uri(url)
        except ValueError as error:
            if "Unrecognized filesystem type" not in str(error):
                raise ValueError(f"{shown(url)}: {first_line(error).replace(url, shown(url))}.") from None
            fsspec = optional_package("fsspec", "verax[ray]", shown(url))
            own, path = fsspec.core.url_to_fs(url)
            system = fs.PyFileSystem(fs.FSSpecHandler(own))
    return _impatient(fs, system) if system.type_name == "s3" else system, path.rstrip("/")


def _impatient(fs: Any, system: Any) -> Any:
    """The same store, given up in time: opened by URL, pyarrow waits minutes for one that does not answer."""
    _, (options,) = system.__reduce__()  # as a copy is made; a URL cannot say how long to wait
    tries = fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES)
    return fs.S3FileSystem(**options | {"connect_timeout": _SECONDS, "request_timeout": _SECONDS}, retry_strategy=tries)


@contextmanager
def named(address: str) -> Iterator[None]:
    """Make errors of a store name what was asked for, and say what to do; the stores' own texts are long."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{address}: there is no such file or folder.") from None
    except OSError as error:
        if str(error).startswith(address):
            raise
        raise OSError(f"{address}: {_meaning(first_line(error))}.") from None
    except ImportError as error:
        raise ImportError(f"{address}: {first_line(error)}.") from None


def _meaning(text: str) -> str:
    if _NO_BUCKET.search(text):
        return "there is no such bucket; look at its name, or make it"
    told = _REQUEST.sub("", text).rstrip(".")
    if _DENIED.search(told):
        return f"access is denied ({told}); look at the credentials, and at what they allow"
    return f"cannot be reached ({told}); look at the address and the network, then run the same command again"
