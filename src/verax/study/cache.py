"""The attribution cache: files named by what they hold, the least recently used dropped when it is full."""

import contextlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from verax.core.files import Sealed, write_atomically
from verax.core.shapes import Float
from verax.scoring.meter import Cost, Rows

_KEY = "verax"


def words(facts: Mapping[str, Any]) -> dict[str, str]:
    """Facts that JSON can hold as the metadata of a Parquet or safetensors file; ``unit`` is the name."""
    return {_KEY: json.dumps(dict(facts))}


def stored_name(content: bytes, suffix: str) -> str | None:
    """The name that a Parquet or safetensors file says; None where it says none.

    Example:
        >>> from safetensors.torch import save
        >>> stored_name(save({}, words({"unit": "some"})), ".safetensors")
        'some'
    """
    try:
        if suffix == ".parquet":
            metadata = pl.read_parquet_metadata(io.BytesIO(content))
        else:
            metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        name = json.loads(metadata[_KEY])["unit"]
    except (pl.exceptions.PolarsError, OSError, ValueError, KeyError, TypeError):  # not such a file
        return None
    return name if isinstance(name, str) else None


_SUFFIX = ".safetensors"
_SHARE = 16  # of the room: so much is freed at once, and so much written until other workers' files are counted anew


class Cache:
    """Attributions on disk.

    The folder is listed at first use, and again when it is nearly full: to list it each time would take ever longer.
    What other workers add meanwhile is not seen until then; no two of them need the same attributions.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cache = Cache(Path(folder), limit=10_000)
        ...     cache.put("ab" * 32, torch.ones(2, 3), Cost(Rows(20), 0.5))
        ...     values, cost = cache.get("ab" * 32, (2, 3))
        ...     cost.rows, values.sum().item(), cache.get("cd" * 32, (2, 3))
        (Rows(forward=20, backward=0), 6.0, None)
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._paths: dict[str, list[Path]] | None = None  # by key; None before the folder was listed
        self._used, self._added = 0, 0  # bytes in the folder when it was listed, and written since

    def get(self, key: str, shape: tuple[int, ...]) -> tuple[Float[Tensor, "*shape"], Cost] | None:
        """What is kept under a key, and what it cost when it was computed; None where nothing whole is."""
        for path in self._known().pop(key, []):
            content = Sealed.read(path)
            try:
                tensors = {} if content is None or stored_name(content, _SUFFIX) != key else load_tensors(content)
            except SafetensorError:
                tensors = {}
            values, cost = (tensors.get(name, torch.empty(0)) for name in ("attributions", "cost"))
            if tuple(values.shape) == shape and len(cost) == 3:
                with contextlib.suppress(FileNotFoundError):  # another worker dropped it meanwhile
                    os.utime(path)  # used now
                self._known()[key] = [path]
                return values, Cost(Rows(int(cost[0]), int(cost[1])), float(cost[2]))
            path.unlink(missing_ok=True)  # damaged or under another's name: worth nothing, and computed anew
        return None

    def takes(self, values: Float[Tensor, "*shape"]) -> bool:
        """Whether attributions are small enough to be kept at all."""
        return values.numel() * values.element_size() + 1024 <= self.limit

    def put(self, key: str, values: Float[Tensor, "*shape"], cost: Cost) -> None:
        """Keep attributions, and drop the least recently used where there is no room; too large ones are not kept.

        What they cost is kept with them, so that a unit made from the cache has the cost of one made without.
        """
        size = values.numel() * values.element_size() + 1024
        if not self.takes(values):
            return
        known = self._known()
        if self._used + self._added + size > self.limit or self._added > self.limit // _SHARE:
            known = self._make_room(size)
        numbers = torch.tensor((cost.rows.forward, cost.rows.backward, cost.seconds), dtype=torch.float64)
        tensors = {"attributions": values.detach().cpu().contiguous(), "cost": numbers}
        content = save_tensors(tensors, words({"unit": key}))
        path = self.folder / Sealed.name(key, content, _SUFFIX)
        write_atomically(path, content)
        known.setdefault(key, []).append(path)
        self._added += len(content)

    def size(self) -> int:
        return sum(used for _, used, _ in self._entries())

    def _known(self) -> dict[str, list[Path]]:
        return self._count(self._entries()) if self._paths is None else self._paths

    def _count(self, entries: list[tuple[float, int, Path]]) -> dict[str, list[Path]]:
        self._paths, self._used, self._added = {}, 0, 0
        for _, size, path in entries:
            self._paths.setdefault(path.name.partition(".")[0], []).append(path)
            self._used += size
        return self._paths

    def _make_room(self, size: int) -> dict[str, list[Path]]:
        """Count anew, and drop the least recently used where the next ones have no room."""
        entries = sorted(self._entries())
        used, dropped = sum(entry for _, entry, _ in entries), 0
        if used + size > self.limit:
            most = self.limit - max(size, self.limit // _SHARE)
            while used > most:
                _, entry, path = entries[dropped]
                path.unlink(missing_ok=True)
                used, dropped = used - entry, dropped + 1
        return self._count(entries[dropped:])

    def _entries(self) -> list[tuple[float, int, Path]]:
        entries = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            try:
                status = path.stat()
            except FileNotFoundError:  # another worker dropped it meanwhile
                continue
            entries.append((status.st_mtime, status.st_size, path))
        return entries
