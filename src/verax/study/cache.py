"""The attribution cache: safetensors files named by what they hold, the least recently used dropped when it is full."""

import contextlib
import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from verax.core.files import Sealed, write_atomically
from verax.core.shapes import Float
from verax.scoring.meter import Cost, Rows

_SUFFIX = ".safetensors"


class Cache:
    """Attributions on disk.

    Args:
        folder: Where.
        limit: Most bytes; 0 keeps nothing.

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

    def get(self, key: str, shape: tuple[int, ...]) -> tuple[Float[Tensor, "*shape"], Cost] | None:
        """What is kept under a key, and what it cost when it was computed; None where nothing whole is."""
        for path in self.folder.glob(f"{key}.*{_SUFFIX}"):
            content = Sealed.read(path)
            try:
                tensors = {} if content is None else load_tensors(content)
            except SafetensorError:
                tensors = {}
            values, cost = (tensors.get(name, torch.empty(0)) for name in ("attributions", "cost"))
            if tuple(values.shape) == shape and len(cost) == 3:
                with contextlib.suppress(FileNotFoundError):  # another worker dropped it meanwhile
                    os.utime(path)  # used now
                return values, Cost(Rows(int(cost[0]), int(cost[1])), float(cost[2]))
            path.unlink(missing_ok=True)  # damaged: worth nothing, and computed anew
        return None

    def put(self, key: str, values: Float[Tensor, "*shape"], cost: Cost) -> None:
        """Keep attributions, and drop the least recently used where there is no room; too large ones are not kept.

        What they cost is kept with them, so that a unit made from the cache has the cost of one made without.
        """
        size = values.numel() * values.element_size() + 1024
        if size > self.limit:
            return
        self._make_room(size)
        numbers = torch.tensor((cost.rows.forward, cost.rows.backward, cost.seconds), dtype=torch.float64)
        content = save_tensors({"attributions": values.detach().cpu().contiguous(), "cost": numbers})
        write_atomically(self.folder / Sealed.name(key, content, _SUFFIX), content)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(used for _, used, _ in self._entries())

    def _make_room(self, size: int) -> None:
        entries = sorted(self._entries())
        used = sum(entry for _, entry, _ in entries)
        for _, entry, path in entries:
            if used + size <= self.limit:
                return
            path.unlink(missing_ok=True)
            used -= entry

    def _entries(self) -> list[tuple[float, int, Path]]:
        entries = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            try:
                status = path.stat()
            except FileNotFoundError:  # another worker dropped it meanwhile
                continue
            entries.append((status.st_mtime, status.st_size, path))
        return entries
