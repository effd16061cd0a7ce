"""Checks in files: TOML that states everything before the run, the lock that shows whether it changed, and the run."""

import functools
import hashlib
import inspect
import os
import platform
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verax.checking.check import run_check
from verax.checking.measure import Block, Measured, Plan, method_of, planned
from verax.checking.requirement import Requirement, Segments, requirements_of
from verax.checking.result import Check
from verax.core.blocks import one_thread_on_cpu
from verax.core.engine import Processes
from verax.core.files import digest, read_sealed_json, sealed_json, write_atomically
from verax.core.packages import __version__
from verax.core.registry import unknown
from verax.core.warn import once_per_call
from verax.data.array_files import SUFFIXES, TABLES, read_table
from verax.problem.files import attributions_of, open_problem
from verax.problem.files.tables import is_file
from verax.problem.replacement.base import replacement_from
from verax.scoring.model_files.opening import weight_files

FORMAT = "verax check 1"
_FILES = ("model", "inputs", "background", "background_labels")  # of open_problem; these may be files as well:
_MAYBE = ("features", "baselines", "target")
_CODE = (".py", ".so", ".pyd")
_SHARED = ("level", "inputs", "seed", "until")  # of requirements, stated once for all
_TABLES = ("problem", "explanation", "compared_with", "requirements")


class CheckFileError(ValueError):
    """A check file, or its lock, that cannot be used; the message names the file, the key and what was expected."""


@dataclass(frozen=True)
class CheckFile:
    """A check as its file states it, every word of it checked; nothing is opened yet."""

    path: Path  # the file
    text: str  # what it holds
    problem: Mapping[str, Any]  # arguments of ``verax.open_problem``, files as whole paths
    explanation: tuple[str, str]  # the name of the explanation, and its file or method
    others: Mapping[str, str]  # the same of those that it is compared with
    requirements: tuple[Requirement, ...]  # what must hold

    @classmethod
    def read(cls, path: str | Path) -> "CheckFile":
        """Read a file, or say what is wrong with it."""
        path = Path(path)
        try:
            text = path.read_bytes().decode("utf-8")
            content = tomllib.loads(text)
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise CheckFileError(f"{path}: cannot be read as TOML: {error}.") from None
        try:
            return cls(path, text, *_read(content, path.absolute().parent))
        except (ValueError, TypeError) as error:
            raise CheckFileError(f"{path}: {error}") from None

    @property
    def files(self) -> dict[str, Path]:
        """Every file that decides about the result, by its name in the check."""
        files = {name: Path(self.problem[name]) for name in (*_FILES, *_MAYBE) if _is_path(name, self.problem)}
        sources = {"explanation": self.explanation[1]}
        sources |= {f"compared_with.{name}": source for name, source in self.others.items()}
        files |= {name: Path(source) for name, source in sources.items() if _is_file(source)}
        for number, requirement in enumerate(self.requirements):
            if requirement.segments is not None and requirement.segments.file is not None:
                files[f"requirements[{number}].segments"] = Path(requirement.segments.file)
        return files

    def open(self) -> Plan:
        """Open the model and all files, and check that they fit together."""
        settings = dict(self.problem)
        if "replacement" in settings:
            settings["replacement"] = replacement_from(settings["replacement"])
        problem = open_problem(**settings)
        attributions = {}
        for name, source in (self.explanation, *self.others.items()):
            if not _is_file(source):
                attributions[name] = method_of(source)
                continue
            held = attributions_of(problem, [Path(source)])
            if len(held) != 1:
                raise CheckFileError(f"{source}: expected one attribution, got {', '.join(held)}.")
            (attributions[name],) = held.values()
        return planned(problem, attributions, tuple(map(self._settled, self.requirements)))

    def _settled(self, requirement: Requirement) -> Requirement:
        """The requirement with its explanation, and with the values of its segments' column where a table has it."""
        requirement = replace(requirement, explanation=requirement.explanation or self.explanation[0])
        held = requirement.segments
        source = Path("" if held is None else held.file or self.problem["inputs"])
        if held is None or held.column is None or source.suffix.lower() not in TABLES:
            return requirement
        table = read_table(source)
        if held.column not in table.columns:
            raise CheckFileError(f"{source}: segments.column: {unknown(held.column, table.columns)}")
        column = table[held.column]
        labels = column.to_numpy() if column.dtype.is_numeric() else np.array(list(map(str, column.to_list())))
        return replace(requirement, segments=replace(held, file=None, labels=labels))


def _read(
    content: Mapping[str, Any], folder: Path
) -> tuple[dict[str, Any], tuple[str, str], dict[str, str], tuple[Requirement, ...]]:
    _check_keys("", content, (*_TABLES, *_SHARED))
    for key in ("problem", "explanation"):
        if not isinstance(content.get(key), dict):
            raise ValueError(f"{key}: expected a table [{key}].")
    listed = content.get("requirements")
    if not isinstance(listed, list) or not listed:
        raise ValueError("requirements: expected at least one table [[requirements]].")
    shared = {name: content[name] for name in _SHARED if name in content}
    requirements = requirements_of(
        [shared | requirement if isinstance(requirement, dict) else requirement for requirement in listed]
    )
    for number, requirement in enumerate(requirements):
        if not requirement.justification.strip():
            raise ValueError(f"requirements[{number}].justification: say in words why this threshold.")
    others = content.get("compared_with", {})
    if not isinstance(others, dict):
        raise ValueError("compared_with: expected a table of names and their files or methods.")
    explanation = _explanation(content["explanation"], folder)
    named = {name: _source(f"compared_with.{name}", source, folder) for name, source in others.items()}
    if explanation[0] in named:
        raise ValueError(
            f"compared_with: {explanation[0]!r} is the name of the explanation; call the other one otherwise."
        )
    problem = content["problem"]
    _check_problem(problem)
    placed = {key: str(folder / value) if _is_path(key, problem) else value for key, value in problem.items()}
    return placed, explanation, named, tuple(_placed(requirement, folder) for requirement in requirements)


def _check_problem(problem: Mapping[str, Any]) -> None:
    _check_keys("problem.", problem, inspect.signature(open_problem).parameters)
    if missing := [key for key in ("model", "inputs") if key not in problem]:
        raise ValueError(f"problem.{missing[0]}: expected a file.")
    for key in (*_FILES, "replacement"):
        if not isinstance(problem.get(key, ""), str):
            raise ValueError(f"problem.{key}: expected text, got {problem[key]!r}.")
    if not isinstance(problem.get("trust", False), bool):
        raise ValueError(f"problem.trust: expected true or false, got {problem['trust']!r}.")


def _check_keys(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{where}{key}: no such key; {unknown(key, known)}")


def _is_path(key: str, problem: Mapping[str, Any]) -> bool:
    return (key in _FILES and key in problem) or (key in _MAYBE and is_file(problem.get(key)))


def _explanation(table: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    _check_keys("explanation.", table, ("file", "method", "name"))
    if ("file" in table) == ("method" in table):
        raise ValueError("explanation: expected either file or method.")
    kind = "file" if "file" in table else "method"
    value = _source(f"explanation.{kind}", table[kind], folder)
    if _is_file(value) != (kind == "file"):
        raise ValueError(f"explanation.{kind}: expected a {kind}, got {table[kind]}.")
    name = table.get("name", Path(value).stem if kind == "file" else value)
    if not isinstance(name, str) or not name:
        raise ValueError(f"explanation.name: expected a name, got {name!r}.")
    return name, value


def _source(key: str, value: Any, folder: Path) -> str:
    """A file as a whole path, or the short form of a method, which must be known."""
    if not isinstance(value, str):
        raise ValueError(f"{key}: expected a file ({', '.join(SUFFIXES)}) or a method, got {value!r}.")
    if _is_file(value):
        return str(folder / value)
    try:
        method_of(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{key}: {error}") from None
    return value


def _is_file(word: str) -> bool:
    """Whether a word names a file of attributions; those of texts may be lists of numbers in lines of JSON."""
    return is_file(word) or word.lower().endswith(".jsonl")


def _placed(requirement: Requirement, folder: Path) -> Requirement:
    """The requirement with whole paths; labels are for calls in Python."""
    held: Segments | None = requirement.segments
    if held is not None and held.labels is not None:
        raise ValueError("segments: expected 'class', or a table with score or column.")
    if held is None or held.file is None:
        return requirement
    return replace(requirement, segments=replace(held, file=str(folder / held.file)))


def hashes(check: CheckFile, imports: Sequence[str] = ()) -> dict[str, str]:
    """The SHA-256 of the check file and of every file that it names, code of one's own among them."""
    digests = {"check": hashlib.sha256(check.text.encode()).hexdigest()}
    for name, path in check.files.items():
        digests |= {called: _hash(file) for called, file in _parts(name, path).items()}
    return digests | {f"import {module}": _code_hash(module) for module in imports}


def _parts(name: str, path: Path) -> dict[str, Path]:
    """A file with those that belong to a model's, such as its sidecar; of a folder, everything in it."""
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        return {f"{name}/{file.relative_to(path).as_posix()}": file for file in inside}
    weights = weight_files(path) if name == "model" else []
    return {name: path} | {f"{name}/{os.path.relpath(file, path.parent)}": file for file in weights}


def _code_hash(module: str) -> str:
    """The hash of a module's file, or of all code of the package that it is of: modules import their neighbours."""
    package = sys.modules[module.partition(".")[0]]
    if not hasattr(package, "__path__"):
        source = getattr(package, "__file__", None)
        return "built into Python" if source is None else _hash(Path(source))
    digests: dict[str, str] = {}
    for number, folder in enumerate(map(Path, package.__path__)):
        code = (file for file in folder.rglob("*") if file.suffix in _CODE)
        digests |= {f"{number}/{file.relative_to(folder).as_posix()}": _hash(file) for file in code}
    return digest(**digests)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lock_path(check: CheckFile) -> Path:
    """Where the lock of a check lies: beside its file."""
    return check.path.with_name(f"{check.path.name}.lock")


def freeze(check: CheckFile, imports: Sequence[str] = ()) -> dict[str, Any]:
    """Write the lock: the hash of everything that decides about the result, before it is known."""
    check.open()
    held = hashes(check, imports)
    content = {
        "format": FORMAT,
        "frozen": datetime.now(UTC).isoformat(timespec="seconds"),
        "hash": digest(**held),
        "files": held,
        "versions": versions(),
    }
    write_atomically(lock_path(check), sealed_json(content))
    return content


def read_lock(check: CheckFile) -> dict[str, Any] | None:
    """The lock, None where the check was never frozen."""
    path = lock_path(check)
    if not path.exists():
        return None
    content = read_sealed_json(path.read_bytes())
    if content is None or content["format"] != FORMAT:
        raise CheckFileError(f"{path}: no lock, or a damaged one; freeze the check again.")
    return content


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of what is not what it was."""
    return [name for name in {**before, **now} if before.get(name) != now.get(name)]


def versions() -> dict[str, str]:
    """What computes here."""
    return {
        "verax": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def run_file(check: CheckFile, workers: int = 1) -> Check:
    """Run a check that a file states."""
    with one_thread_on_cpu(check.problem.get("device") or "cpu"), once_per_call():
        plan = check.open()
        if workers == 1:
            return run_check(plan, lambda part, numbers, blocks: map(part.measure, blocks))
        with Processes([functools.partial(_measured, str(check.path))] * workers) as engine:

            def in_order(part: Plan, numbers: Sequence[int], blocks: Iterable[Block]) -> Iterable[Measured]:
                tasks = [(place, numbers, block) for place, block in enumerate(blocks)]
                done = dict(engine.run(tasks, name=lambda task: f"inputs {task[2].rows.min()} to {task[2].rows.max()}"))
                return [done[place] for place in range(len(tasks))]

            return run_check(plan, in_order)


def _measured(path: str, task: tuple[int, Sequence[int], Block], tell: object) -> tuple[int, Measured]:
    """What a worker does with a block."""
    place, numbers, block = task
    return place, _plan(path).part(numbers).measure(block)


@functools.cache
def _plan(path: str) -> Plan:
    """The check, opened once by each worker."""
    return CheckFile.read(Path(path)).open()
