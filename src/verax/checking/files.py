"""Checks in files: TOML that states everything before the run, the lock that shows whether it changed, and the run."""

import functools
import hashlib
import inspect
import platform
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verax.checking.check import Rows, run_check
from verax.checking.measure import Measured, Plan, method_of, planned
from verax.checking.requirement import Requirement, Segments, requirements_of
from verax.checking.result import Check
from verax.core.blocks import one_thread_on_cpu
from verax.core.engine import Engine, Processes
from verax.core.files import digest, read_sealed_json, sealed_json, write_atomically
from verax.core.packages import __version__
from verax.core.registry import unknown
from verax.core.warn import once_per_call
from verax.data.array_files import SUFFIXES, TABLES, read_table
from verax.problem.files import attributions_of, open_problem
from verax.problem.files.description import is_file
from verax.problem.replacement.words import replacement_from

FORMAT = "verax check 1"
_FILES = ("model", "inputs", "background", "background_labels")  # of open_problem; these may be files as well:
_MAYBE = ("features", "baselines", "target")
_SHARED = ("level", "inputs", "seed", "until")  # of requirements, said once for all
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
        """Every file that decides about the result, by the name under which the check says it."""
        files = {name: Path(self.problem[name]) for name in (*_FILES, *_MAYBE) if _is_path(name, self.problem)}
        sources = {
            "explanation": self.explanation[1],
            **{f"compared_with.{name}": source for name, source in self.others.items()},
        }
        files |= {name: Path(source) for name, source in sources.items() if is_file(source)}
        for number, source in enumerate(self.requirements):
            if source.segments is not None and source.segments.file is not None:
                files[f"requirements[{number}].segments"] = Path(source.segments.file)
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
        about = [
            replace(requirement, explanation=requirement.explanation or self.explanation[0])
            for requirement in self.requirements
        ]
        return planned(problem, attributions, tuple(self._with_labels(requirement) for requirement in about))

    def _with_labels(self, one: Requirement) -> Requirement:
        """The requirement with the values of its segments' column, from a file where that has it."""
        held = one.segments
        if held is None or held.column is None:
            return one
        source = Path(held.file or self.problem["inputs"])
        if source.suffix.lower() not in TABLES:
            return one
        table = read_table(source)
        if held.column not in table.columns:
            raise CheckFileError(f"{source}: segments.column: {unknown(held.column, table.columns)}")
        column = table[held.column]
        words = column.dtype.is_numeric()
        labels = column.to_numpy() if words else np.array([str(one) for one in column.to_list()])
        return replace(one, segments=replace(held, file=None, labels=labels))


def _read(
    content: Mapping[str, Any], folder: Path
) -> tuple[dict[str, Any], tuple[str, str], dict[str, str], tuple[Requirement, ...]]:
    for key in content:
        if key not in (*_TABLES, *_SHARED):
            raise ValueError(f"{key}: no such key; {unknown(key, (*_TABLES, *_SHARED))}")
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
    named = {name: _said(f"compared_with.{name}", source, folder) for name, source in others.items()}
    if explanation[0] in named:
        raise ValueError(
            f"compared_with: {explanation[0]!r} is the name of the explanation; call the other one otherwise."
        )
    return (
        _problem(content["problem"], folder),
        explanation,
        named,
        tuple(_placed(requirement, folder) for requirement in requirements),
    )


def _problem(said: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    known = list(inspect.signature(open_problem).parameters)
    for key in said:
        if key not in known:
            raise ValueError(f"problem.{key}: no such key; {unknown(key, known)}")
    if missing := [key for key in ("model", "inputs") if key not in said]:
        raise ValueError(f"problem.{missing[0]}: expected a file.")
    return {key: str(folder / value) if _is_path(key, said) else value for key, value in said.items()}


def _is_path(key: str, said: Mapping[str, Any]) -> bool:
    return (key in _FILES and key in said) or (key in _MAYBE and is_file(said.get(key)))


def _explanation(said: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    for key in said:
        if key not in ("file", "method", "name"):
            raise ValueError(f"explanation.{key}: no such key; {unknown(key, ('file', 'method', 'name'))}")
    if ("file" in said) == ("method" in said):
        raise ValueError("explanation: expected either file or method.")
    (kind,) = {"file", "method"} & set(said)
    value = _said(f"explanation.{kind}", said[kind], folder)
    if is_file(value) != (kind == "file"):
        raise ValueError(
            f"explanation.{kind}: expected {'a file' if kind == 'file' else 'a method'}, got {said[kind]}."
        )
    name = said.get("name", Path(value).stem if kind == "file" else value)
    if not isinstance(name, str) or not name:
        raise ValueError(f"explanation.name: expected a name, got {name!r}.")
    return name, value


def _said(key: str, value: Any, folder: Path) -> str:
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


def _placed(one: Requirement, folder: Path) -> Requirement:
    """The requirement with whole paths; labels are for calls in Python."""
    held: Segments | None = one.segments
    if held is not None and held.labels is not None:
        raise ValueError("segments: expected 'class', or a table with score or column.")
    if held is None or held.file is None:
        return one
    return replace(one, segments=replace(held, file=str(folder / held.file)))


def hashes(check: CheckFile, imports: Sequence[str] = ()) -> dict[str, str]:
    """The SHA-256 of the check file and of every file that it names, code of one's own among them."""
    digests = {"check": hashlib.sha256(check.text.encode()).hexdigest()}
    for name, path in check.files.items():
        inside = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        for file in inside:
            called = name if file == path else f"{name}/{file.relative_to(path).as_posix()}"
            digests[called] = _hash(file)
    for module in imports:
        source = getattr(sys.modules.get(module), "__file__", None)
        if source is not None:
            digests[f"import {module}"] = _hash(Path(source))
    return digests


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
            return run_check(plan, lambda part, numbers, blocks: _in_order(engine, numbers, blocks))


def _in_order(engine: Engine, numbers: Sequence[int], blocks: Iterable[Rows]) -> Iterator[Measured]:
    """What is measured of blocks, in their order."""
    tasks = [(place, tuple(numbers), rows) for place, rows in enumerate(blocks)]
    measured: dict[int, Measured] = {}
    for place, result in engine.run(tasks, name=lambda task: f"inputs {task[2].min()} to {task[2].max()}"):
        measured[place] = _restored(result)
    return (measured[place] for place in range(len(tasks)))


def _measured(path: str, task: tuple[int, tuple[int, ...], Rows], tell: object) -> tuple[int, Measured]:
    """What a worker does with a block."""
    place, numbers, rows = task
    measured = _plan(path).part(numbers).measure(rows)
    arrays: Any = {name: array.numpy() for name, array in measured.scores.items()}  # tensors would share memory
    best: Any = {name: array.numpy() for name, array in measured.limits.items()}
    return place, replace(measured, scores=arrays, limits=best)


@functools.cache
def _plan(path: str) -> Plan:
    """The check, opened once by each worker."""
    return CheckFile.read(Path(path)).open()


def _restored(measured: Measured) -> Measured:
    scores, best = (
        {name: torch.as_tensor(array) for name, array in held.items()} for held in (measured.scores, measured.limits)
    )
    return replace(measured, scores=scores, limits=best)
