"""Image files into one memory-mapped array of pixels, decoded in parallel and stored whole or not at all."""

import contextlib
import hashlib
import os
import shutil
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verax.core.shapes import Int, Shaped
from verax.core.system import available_cores, reserve
from verax.data.limits import positive_variable

Progress = Callable[[int, int], None]
"""Told after each image how many are done and how many there are."""

FORMATS = ("JPEG", "PNG", "WEBP")
"""The only formats that are opened, whatever a file is called: some others start programs (EPS: Ghostscript)."""

MAX_PIXELS = "VERAX_MAX_PIXELS"
"""The environment variable that raises the limit on the pixels of one image."""

_PIXELS = 178_956_970.0  # where Pillow itself raises
_STALE_SECONDS = 24 * 3600
_PARTIAL = ".partial"
FAULTS = (OSError, SyntaxError, ValueError, TypeError, EOFError, LookupError, ArithmeticError, struct.error, zlib.error)
"""What Pillow and its decoders raise on damaged files."""


@dataclass(frozen=True)
class Decoded:
    """What is known of the images after decoding."""

    moments: Int[np.ndarray, "n 2 channels"]  # exact sums of pixels and of their squares; zero where damaged
    digests: tuple[str, ...]  # of each image's pixels; empty where damaged
    damaged: dict[int, str]  # why an image could not be read, by its place


def read_image(path: Path | str, size: int) -> Shaped[np.ndarray, "3 size size"]:
    """Read an image as RGB, its short side resized to ``size`` and its centre cropped to a square.

    An image that already has that size keeps its pixels. The orientation stored by a camera (EXIF) is honoured;
    transparency is dropped; a large JPEG is decoded at a fraction of its size, never less than twice the wanted one,
    before the resize (Lanczos), which is several times faster.
    """
    from PIL import Image, ImageOps  # noqa: PLC0415

    with _opened(path) as opened:
        opened.draft("RGB", (2 * size, 2 * size))
        image = _as_rgb(ImageOps.exif_transpose(opened))
    if image.size != (size, size):
        width, height = image.size
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        image = image.resize((size, size), Image.Resampling.LANCZOS, box=(left, top, left + side, top + side))
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def _opened(path: Path | str) -> Any:
    """The image with its header read; raises if it is of another format or has more pixels than the limit."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    limit = int(positive_variable(MAX_PIXELS, _PIXELS))
    if MAX_PIXELS in os.environ:  # Pillow has a limit of its own, half of what it raises for
        Image.MAX_IMAGE_PIXELS = max(limit // 2, Image.MAX_IMAGE_PIXELS or 0)
    too_large = f"it has more pixels than the limit of {limit:,}; set {MAX_PIXELS} to raise it"
    try:
        opened = Image.open(path, formats=FORMATS)
    except Image.DecompressionBombError:
        raise ValueError(too_large) from None
    except UnidentifiedImageError:
        raise ValueError(f"it is no image in one of the formats {', '.join(FORMATS)}") from None
    if opened.width * opened.height > limit:
        opened.close()
        raise ValueError(too_large)
    return opened


def decode_images(
    paths: Sequence[Path], pixels: Shaped[np.ndarray, "n 3 size size"], progress: Progress | None = None
) -> Decoded:
    """Decode images into the rows of an array, on all cores; the row of one that cannot be read stays as it is."""
    moments = np.zeros((len(paths), 2, pixels.shape[1]), dtype=np.int64)
    digests = [""] * len(paths)
    damaged: dict[int, str] = {}
    # Threads: Pillow, hashlib and NumPy let go of the interpreter, and a thread can fill the map without a copy.
    pool = ThreadPoolExecutor(max_workers=available_cores())
    try:
        tasks = {pool.submit(_decode_one, path, pixels[row]): row for row, path in enumerate(paths)}
        for done, task in enumerate(as_completed(tasks), start=1):
            row, decoded = tasks[task], task.result()
            if isinstance(decoded, str):
                damaged[row] = decoded
            else:
                digests[row], moments[row] = decoded
            if progress is not None:
                progress(done, len(paths))
    finally:
        pool.shutdown(cancel_futures=True)
    return Decoded(moments, tuple(digests), dict(sorted(damaged.items())))


def create_pixels(path: Path, shape: tuple[int, ...]) -> Shaped[np.ndarray, "n 3 size size"]:
    """Create a memory-mapped uint8 ``.npy`` file, with its room on the disk reserved."""
    pixels = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    with path.open("r+b") as file:
        try:
            reserve(file, pixels.offset + pixels.nbytes)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cache: the decoded images need {pixels.nbytes / 1e9:.1f} GB ({os.strerror(error.errno or 0)}); "
                "free the room or choose another directory",
                str(path.parent.parent),
            ) from error
    return pixels


def keep_rows(path: Path, rows: Sequence[int]) -> None:
    """Shorten a ``.npy`` file in place to some of its rows, given in ascending order."""
    array: Any = np.load(path, mmap_mode="r+")
    if len(rows) == len(array):
        return
    for place, row in enumerate(rows):
        if place != row:
            array[place] = array[row]
    array.flush()
    offset, row_bytes = array.offset, array.nbytes // len(array)
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": (len(rows), *array.shape[1:])}
    del array
    with path.open("r+b") as file:
        np.lib.format.write_array_header_1_0(file, header)
        if file.tell() != offset:  # NumPy pads headers so that the first axis may change; never seen
            raise RuntimeError(f"{path}: the header grew while rows were removed.")
        file.truncate(offset + len(rows) * row_bytes)


@contextlib.contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``target`` when the block ends well, and is removed when it does not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f".*{_PARTIAL}"):  # by a process that was killed
        with contextlib.suppress(OSError):  # another process may be sweeping too
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_PARTIAL, dir=target.parent))
    try:
        yield scratch
        try:
            scratch.rename(target)
        except OSError:
            if not target.is_dir():  # another process was faster
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def show_progress(done: int, total: int) -> None:
    """Show a counter on the terminal; silent where standard error is not one."""
    step = max(1, total // 200)
    if sys.stderr.isatty() and (done % step == 0 or done == total):
        end = "\n" if done == total else ""
        sys.stderr.write(f"\rdecoding images: {done:,} of {total:,} ({done / total:.0%}){end}")
        sys.stderr.flush()


def _as_rgb(image: Any) -> Any:
    if image.mode[0] in "IF":  # Pillow would clip them to white
        raise ValueError(f"pixels of more than 8 bits (Pillow's mode {image.mode!r}) are not supported")
    if image.mode == "P":  # a palette with transparent entries becomes RGB only by way of RGBA
        image = image.convert("RGBA")
    return image if image.mode == "RGB" else image.convert("RGB")


def _decode_one(path: Path, target: np.ndarray) -> tuple[str, np.ndarray] | str:
    """Fill one row; the hash and the moments of its pixels, or why it could not be read."""
    try:
        pixels = read_image(path, target.shape[-1])
    except FAULTS as error:
        return f"{type(error).__name__}: {error}"
    target[...] = pixels
    wide = pixels.reshape(len(pixels), -1).astype(np.float64)  # holds these sums exactly
    moments = np.stack([wide.sum(1), np.einsum("cp,cp->c", wide, wide)])
    return hashlib.sha256(pixels.tobytes()).hexdigest(), moments.astype(np.int64)
