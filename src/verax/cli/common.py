"""What all commands share: how they end, what they check before any work, and how they print."""

import contextlib
import importlib.util
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from verax.core.display import escape
from verax.core.files import finite
from verax.core.packages import PIP_NAMES
from verax.core.registry import load_plugins, unknown

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_MODULES = {name: module for module, name in PIP_NAMES.items()}

Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Run this module's code first: it defines metrics, methods or data sets of your own.",
    ),
]

FAILED, UNUSABLE, STOPPED = 1, 2, 130

EXIT_CODES = """\b
Exit codes:
  0    done
  1    a check failed: verify found a difference, doctor something broken
  2    cannot be done as asked: one line says why, and nothing is written
  3    monitor: the fidelity fell
  4    check: a requirement failed
  5    check: a requirement is undecided, and none failed
  130  stopped with Ctrl-C"""

PLAIN = {"max_content_width": 120, "help_option_names": ["-h", "--help"]}  # help as wide as the terminal, within reason

_ARGUMENTS = (
    "model|inputs|attributions|target|output|background_labels|background|baselines|features|replacement|returns|"
    "missing|device|trust|text_column|word_column|unit|replace|batch_size|level|out|key"
)  # of calls, that are options of commands as well
_CHOICE = re.compile(r"^Invalid value for '(--[\w-]+)': (?:Value error, )?(.+) is not one of (.+?)(?=\.?$)")
_UsageError: Any = typer.BadParameter.__mro__[1]  # all wrong usage; typer has no name for it


class Commands(TyperGroup):
    """Commands whose wrong usage is told in one line, as everything else that is wrong."""

    def main(self, *args: Any, standalone_mode: bool = True, **settings: Any) -> Any:
        """Run a command and end the process with its exit code."""
        if "torch" not in sys.modules:  # it reads this once, when it is loaded
            os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait must not keep a core from others
        try:
            with _warnings_in_a_line():
                code = super().main(*args, **settings | {"standalone_mode": False})
        except _UsageError as error:
            if not standalone_mode:
                raise
            tell(_usage(error))
            code = UNUSABLE
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


@contextlib.contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Show a warning as a line of its own, without the place in the code where it was given."""

    def in_a_line(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        return escape(f"verax: warning: {as_options(' '.join(str(message).split()))}") + "\n"

    before = warnings.formatwarning
    warnings.formatwarning = in_a_line
    try:
        yield
    finally:
        warnings.formatwarning = before


def as_options(text: str) -> str:
    """The arguments that a message speaks of, as options of the command line.

    Example:
        >>> as_options('Pass baselines="mean" with background=train_inputs, or output="logit".')
        'Pass --baselines mean --background FILE, or --output logit.'
        >>> as_options('target: expected a class; pass background=FILE.'), as_options("pc: no such thing.")
        ('--target: expected a class; pass --background FILE.', 'pc: no such thing.')
    """

    def option(match: re.Match[str]) -> str:
        return f"{_option(match[1])} {match[2]}".rstrip()

    text = re.sub(r'verax\.Scorer\(\w+, (returns="\w+")\)', r"\1", text)
    text = text.replace('the metric sigma="std", and the problem', "--metric 'NAME(sigma=std)', and")
    text = text.replace("leave target out", "leave --target out")
    text = re.sub(r"( with)? background=[a-z]\w*", " --background FILE", text)
    text = re.sub(rf"^({_ARGUMENTS})(?=: )", lambda match: _option(match[1]), text)
    text = re.sub(rf'\b({_ARGUMENTS})="(\w+)"', option, text)
    return re.sub(rf"\b({_ARGUMENTS})=(FILE|\d+|)(?=[\s.,;]|$)", option, text)


def _option(argument: str) -> str:
    """The option that stands for an argument of ``verax.open_problem``."""
    return "--trust-model" if argument == "trust" else f"--{argument.replace('_', '-')}"


def _usage(error: Any) -> str:
    text = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":  # whose message is the help
        return str(text)
    line = _CHOICE.sub(r"\1: expected one of \3, got \2", " ".join(text.split()))
    return f"verax: {line}{'' if line.endswith(('.', '?')) else '.'} See '{error.ctx.command_path} --help'."


def examples(*lines: str) -> str:
    """Examples for the end of a help page, each on a line of its own, which the backspace keeps apart."""
    return "\n  ".join(["\b\nExample:" if len(lines) == 1 else "\b\nExamples:", *lines])


@contextlib.contextmanager
def one_line_errors(imports: Sequence[str] | None = None, stopped: str = "Nothing was written.") -> Iterator[None]:
    """Import the user's modules; say in one line, with exit code 2, what can be mended; after Ctrl-C ``stopped``."""
    try:
        load_plugins(imports or ())
        yield
    except BrokenPipeError:  # whoever reads has read enough; typer ends quietly
        raise
    except (ValueError, TypeError, OSError, EOFError, ImportError, MemoryError, FloatingPointError) as error:
        tell(f"verax: {_message(error)}")
        raise typer.Exit(UNUSABLE) from None
    except KeyboardInterrupt:
        tell(f"verax: stopped. {stopped}")
        raise typer.Exit(STOPPED) from None


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:  # the system's words, without its number
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, MemoryError):
        return f"not enough memory{f' ({error})' if str(error) else ''}; free some, or use a machine with more."
    text = as_options(str(error) or type(error).__name__)
    return re.sub(r"\s+", " ", text) if re.search(r"\n\s", text) else text  # an indented line goes on with the last


def checked_name(option: str, name: str, known: Collection[str]) -> str:
    """Raise for a name that nothing has, and say how to bring one's own."""
    if name not in known:
        raise ValueError(f"{option}: {unknown(name, known)} One of your own needs --import MODULE.")
    return name


def checked_device_name(device: str) -> str:
    """Raise for a device that is not there before anything is loaded or trained for it."""
    from verax.scoring.scorer import checked_device

    place = checked_device(device, "--device")
    if place is not None and place.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"--device: expected cpu, cuda or mps, got {device}.")
    return device


def check_file(option: str, path: Path, suffix: str, taken: Iterable[Path] = ()) -> None:
    """Raise, before any work, for a file that cannot be written or that is one of the others."""
    if path.suffix.lower() != suffix:
        raise ValueError(f"{option}: expected a file name that ends in {suffix}, got {path}.")
    if path.is_dir():
        raise ValueError(f"{option}: {path} is a folder; expected a file name.")
    if path.resolve() in [other.resolve() for other in taken]:
        raise ValueError(f"{option}: {path} is also read or written for another option; it would be overwritten.")
    check_folder(option, path.parent, path)


def check_folder(option: str, folder: Path, wanted: Path | None = None) -> None:
    if reason := why_not_writable(folder):
        raise ValueError(f"{option}: {wanted or folder} cannot be written, {reason}.")


def why_not_writable(folder: Path) -> str:
    """Why nothing can be written in a folder, which will be made if it is missing; empty if something can."""
    parent = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not parent.is_dir():
        return f"{parent} is no folder"
    try:
        with tempfile.TemporaryFile(dir=parent):  # rights can be read, but not those of every kind of disk
            return ""
    except OSError as error:
        return f"{'no rights' if isinstance(error, PermissionError) else error.strerror} in {parent}"


def show(facts: Any, text: str, *, as_json: bool, written: Iterable[Path] = ()) -> None:
    """Print what was found as text, or as JSON, then the only thing on the standard output; and name the files."""
    typer.echo(json.dumps(finite(facts), indent=2, allow_nan=False) if as_json else escape(text))
    for path in written:
        typer.echo(escape(f"Saved as {path}"), err=as_json)


def tell(line: str) -> None:
    typer.echo(escape(line), err=True)


def write_together(files: Mapping[Path, bytes]) -> None:
    from verax.core.files import whole_or_nothing

    with contextlib.ExitStack() as stack:  # a file appears under its name when the last one is written
        opened = [(stack.enter_context(whole_or_nothing(path)), content) for path, content in files.items()]
        for file, content in opened:
            file.write(content)


def check_extra(purpose: str, extra: str) -> None:
    """Say before any work which packages of an extra are missing."""
    packages = [requirement.name for requirement in requirements() if extra_of(requirement) == extra]
    missing = [name for name in packages if importlib.util.find_spec(module_name(name)) is None]
    if missing:
        raise ImportError(f"{purpose} needs {', '.join(missing)}: pip install 'verax[{extra}]'")


def requirements() -> "list[Requirement]":
    """What the installed package says that it needs; nothing where Verax runs from its source."""
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        return [Requirement(line) for line in metadata.requires("verax") or []]
    except metadata.PackageNotFoundError:
        return []


def extra_of(requirement: "Requirement") -> str:
    return str(requirement.marker).partition('extra == "')[2].partition('"')[0]


def module_name(package: str) -> str:
    """What Python calls a package, by pip's name: PIL for pillow."""
    return _MODULES.get(package.lower(), package.replace("-", "_"))
