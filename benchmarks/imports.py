"""How much ``import verax`` adds to ``import torch``, each in fresh interpreters, interleaved."""

import statistics
import subprocess
import sys

REPEATS = 7
SCRIPT = "import time; start = time.perf_counter(); import {name}; print(time.perf_counter() - start)"


def seconds(name: str) -> float:
    """Import a module in a fresh interpreter."""
    command = [sys.executable, "-c", SCRIPT.format(name=name)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print the medians."""
    times: dict[str, list[float]] = {"torch": [], "verax": []}
    for _ in range(REPEATS):
        for name, found in times.items():
            found.append(seconds(name))
    torch, verax = (statistics.median(found) for found in times.values())
    print(f"import torch {torch:.2f} s, import verax {verax:.2f} s: {verax - torch:+.2f} s (wanted at most +0.20 s)")


if __name__ == "__main__":
    main()
