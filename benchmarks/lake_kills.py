"""Kills while a lake is scored: workers, machines and the first process, at random moments, with SIGKILL.

A small lake of 48 parts, scored quietly once. Then on worker processes, and on a Ray cluster of two machines (two
raylets on this one): workers are killed while the command runs, a raylet is killed with all that it has started and a
new one joins, and the command itself is killed and run again. After every kill each file of scores must be whole; at
the end the scores must be those of the quiet run to the last bit.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import lake_data
import polars as pl

from verax.core.files import Sealed

PARTS, PART_ROWS = 48, 400
COMMAND = [
    sys.executable, "-m", "verax", "lake", "--model", "model.pt2", "--trust-model", "--returns", "logits",
    "--inputs", "lake/rows", "--attributions", "shap=lake/shap", "--workers", "2", "--metric", "pc", "--metric",
    "infidelity(samples=150)", "--out",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=8, help="worker processes, and actors, to kill")
    parser.add_argument("--machines", type=int, default=2, help="raylets to kill")
    parser.add_argument("--drivers", type=int, default=3, help="commands to kill, of each kind")
    options = parser.parse_args()
    options.quick, options.repeats = False, 1
    chance = random.Random(0)  # noqa: S311  # no secret
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        lake_data.write_model(Path())
        lake_data.write_lake(Path("lake"), PARTS * PART_ROWS, PART_ROWS)
        subprocess.run([*COMMAND, "quiet"], check=True, stdout=subprocess.DEVNULL)
        found = {"processes": on_processes(options, chance), "ray": on_ray(options, chance)}
    for kind, counts in found.items():
        print(kind, counts, flush=True)
    print(f"\nRaw counts: {common.write_results('lake_kills', options, parts=PARTS, found=found)}")


def on_processes(options: Any, chance: random.Random) -> dict[str, int]:
    killed = {"workers": 0, "commands": 0}
    while killed["workers"] < options.workers or killed["commands"] < options.drivers:
        driver = start("local")
        while driver.poll() is None and killed["workers"] < options.workers:
            time.sleep(chance.uniform(1, 4))
            killed["workers"] += kill(chance, [pid for pid in children(driver.pid) if "spawn_main" in command(pid)])
        killed["commands"] += ended(driver, chance, killed["commands"] < options.drivers, "local")
    return killed | finish("local")


def on_ray(options: Any, chance: random.Random) -> dict[str, int]:
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray = ["--engine", "ray", "--address", cluster.address]
    killed = {"actors": 0, "raylets": 0, "commands": 0}
    while killed["actors"] < options.workers or killed["raylets"] < options.machines:
        driver = start("ray", *ray)
        while driver.poll() is None and killed["actors"] + killed["raylets"] < options.workers + options.machines:
            time.sleep(chance.uniform(3, 8))
            if actors() and killed["raylets"] < options.machines and killed["actors"] > 2 * killed["raylets"]:
                cluster.remove_node(nodes.pop(0), allow_graceful=False)
                killed["raylets"] += 1
                nodes.append(cluster.add_node(num_cpus=1))
            else:
                killed["actors"] += kill(chance, actors())
        driver.wait()
        check_whole("ray")
        if not list(Path("ray").glob("*.parquet")):
            raise RuntimeError("nothing was stored")
        killed["commands"] += reset("ray", killed, options)
    while killed["commands"] < options.drivers:
        killed["commands"] += ended(start("ray", *ray), chance, True, "ray")
    counts = killed | finish("ray", *ray)
    cluster.shutdown()
    return counts


def reset(out: str, killed: dict[str, int], options: Any) -> int:
    """Where a run was finished too early, remove some parts, so that the next one has something to do."""
    if killed["actors"] < options.workers or killed["raylets"] < options.machines:
        for path in sorted(Path(out).glob("*.parquet"))[: PARTS // 2]:
            path.unlink()
    return 0


def start(out: str, *engine: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*COMMAND, out, *engine], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ended(driver: "subprocess.Popen[bytes]", chance: random.Random, doomed: bool, out: str) -> int:
    """Wait for a command, or kill it when it has stored something more."""
    before = len(list(Path(out).glob("*.parquet")))
    while doomed and driver.poll() is None and len(list(Path(out).glob("*.parquet"))) <= before:
        time.sleep(0.1)
    time.sleep(chance.uniform(0, 1) if doomed else 0)
    killed = doomed and driver.poll() is None
    if killed:
        driver.kill()
    driver.wait()
    check_whole(out)
    if not killed and doomed:
        for path in sorted(Path(out).glob("*.parquet"))[: PARTS // 2]:
            path.unlink()
    return int(killed)


def finish(out: str, *engine: str) -> dict[str, int]:
    """The last run: the files are those of the quiet run."""
    subprocess.run([*COMMAND, out, *engine], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check_whole(out)
    tables = [pl.read_parquet(f"{name}/*.parquet").sort("attribution", "id") for name in (out, "quiet")]
    return {"rows": len(tables[0]), "same": tables[0].equals(tables[1]), "half": len(list(Path(out).glob("*.part")))}


def check_whole(out: str) -> None:
    for path in Path(out).glob("*.parquet"):
        assert Sealed.read(path) is not None, path


def kill(chance: random.Random, processes: list[int]) -> int:
    if not processes:
        return 0
    os.kill(chance.choice(processes), signal.SIGKILL)
    return 1


def actors() -> list[int]:
    """Our actors, which this process has started through its raylets."""
    return [pid for pid in below(os.getpid()) if command(pid).startswith("ray::MapWorker(MapBatches(RayWriter))")]


def below(process: int) -> list[int]:
    found = children(process)
    return found + [pid for child in found for pid in below(child)]


def children(process: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        return [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except OSError:  # ended meanwhile
        return []


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:  # ended meanwhile
        return ""


if __name__ == "__main__":
    main()
