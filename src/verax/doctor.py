"""What is installed here and whether it works: packages, extras, devices, cache folder, and a test of the metrics."""

import importlib
import platform
import re
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from verax.cores import available_cores

ADDS = {
    "ray": "studies on a Ray cluster: verax study run --engine ray",
    "tune": "search for the best method and settings: verax tune",
    "onnx": "models in ONNX files: verax evaluate --model m.onnx",
    "docs": "building the documentation",
    "bench": "benchmarks beside the package lime",
    "dev": "tests, checks and the libraries that results are compared with",
}
"""What each extra is for."""

_MODULES = {"scikit-image": "skimage", "scikit-learn": "sklearn", "pillow": "PIL", "vl-convert-python": "vl_convert"}
# whatever a package may raise that is there, but broken or built for another version of its neighbours
_BROKEN = (ImportError, OSError, ValueError, AttributeError, RuntimeError)


@dataclass(frozen=True)
class Package:
    """A package that is wanted.

    Attributes:
        name: As pip calls it.
        wanted: Which versions, as in ``>=2.6``.
        version: The version that is installed; None if it is missing.
        problem: What is wrong with it; empty if nothing.
    """

    name: str
    wanted: str
    version: str | None
    problem: str


@dataclass(frozen=True)
class Extra:
    """Packages that are needed for some things only.

    Attributes:
        name: Of the extra.
        adds: What it is for.
        packages: What it consists of.
        install: The command that installs it.
    """

    name: str
    adds: str
    packages: tuple[Package, ...]
    install: str

    @property
    def installed(self) -> bool:
        """Whether all of its packages are there."""
        return not any(package.problem for package in self.packages)


@dataclass(frozen=True)
class Device:
    """Where models can run.

    Attributes:
        name: As ``--device`` takes it.
        what: Its model, or how many cores and threads.
        memory_gib: Its memory; None for the CPU and MPS, which share the machine's.
        free_gib: How much of it is free.
        problem: What went wrong in a small test of the metrics on it; empty if nothing.
    """

    name: str
    what: str
    memory_gib: float | None
    free_gib: float | None
    problem: str


@dataclass(frozen=True)
class Checkup:
    """All that was found.

    Attributes:
        verax: Its version.
        python: Python's version.
        system: Operating system and processor.
        packages: What Verax needs.
        extras: What it can use.
        devices: Where models can run, the CPU first.
        cuda: The version of CUDA that torch was built for; None if it was built without.
        cache: The folder for downloads.
        cache_problem: Why nothing can be written there; empty if something can.
    """

    verax: str
    python: str
    system: str
    packages: tuple[Package, ...]
    extras: tuple[Extra, ...]
    devices: tuple[Device, ...]
    cuda: str | None
    cache: str
    cache_problem: str

    @property
    def problems(self) -> list[str]:
        """What must be mended before Verax can be used."""
        packages = [f"{one.name}: {one.problem}" for one in self.packages if one.problem]
        return packages + [f"{one.name}: {one.problem}" for one in self.devices if one.problem]

    def facts(self) -> dict[str, Any]:
        """Everything as plain values."""
        extras = [asdict(one) | {"installed": one.installed} for one in self.extras]
        return asdict(self) | {"extras": extras, "problems": self.problems, "usable": not self.problems}


def examine(requirements: Sequence[str] | None = None) -> Checkup:
    """Look at everything. Takes seconds, because every required package is imported.

    Args:
        requirements: What is needed, in pip's words; what the installed package says by default.

    Example:
        >>> found = examine(["torch>=2.6", "a-package-that-nobody-has>=1; extra == 'tune'"])
        >>> found.problems, found.extras[0].packages[0].problem
        ([], 'missing')
    """
    import torch  # noqa: PLC0415  # as everything that takes long to import

    import verax  # noqa: PLC0415
    from verax.datasets.download import cache_folder  # noqa: PLC0415

    needed = [Requirement(one) for one in (_own_requirements() if requirements is None else requirements)]
    cache = cache_folder()
    return Checkup(
        verax=verax.__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        packages=tuple(package(one, load=True) for one in needed if _always(one)),
        extras=extras(needed),
        devices=devices(),
        cuda=torch.version.cuda,
        cache=str(cache),
        cache_problem=_cannot_write(cache),
    )


def package(wanted: Requirement, *, load: bool = False) -> Package:
    """Look for a package.

    Args:
        wanted: Its name and versions.
        load: Whether to import it as well.

    Example:
        >>> package(Requirement("numpy>=1.26")).problem, package(Requirement("numpy>=1000")).problem[:5]
        ('', 'too o')
    """
    try:
        version = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return Package(wanted.name, str(wanted.specifier), None, "missing")
    problem = ""
    if not wanted.specifier.contains(version, prereleases=True):
        problem = f"too old or too new: {version} is installed, wanted is {wanted.specifier}"
    elif load:
        problem = _cannot_import(_MODULES.get(wanted.name.lower(), wanted.name.replace("-", "_")))
    return Package(wanted.name, str(wanted.specifier), version, problem)


def extras(needed: Iterable[Requirement]) -> tuple[Extra, ...]:
    """The extras among requirements, and whether they are there."""
    groups: dict[str, list[Requirement]] = {}
    for one in needed:
        if name := _extra(one):
            groups.setdefault(name, []).append(one)
    return tuple(
        Extra(name, ADDS.get(name, ""), tuple(package(one) for one in own), f"pip install 'verax[{name}]'")
        for name, own in sorted(groups.items())
    )


def devices() -> tuple[Device, ...]:
    """Where models can run here, each tried."""
    import torch  # noqa: PLC0415

    found = [
        Device("cpu", f"{available_cores()} cores, torch uses {torch.get_num_threads()}", None, None, self_test("cpu"))
    ]
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = (count / 2**30 for count in torch.cuda.mem_get_info(number))
        name = f"cuda:{number}"
        found.append(Device(name, torch.cuda.get_device_name(number), total, free, self_test(name)))
    if torch.backends.mps.is_available():
        found.append(Device("mps", "Apple's graphics processor", None, None, self_test("mps")))
    return tuple(found)


def self_test(device: str) -> str:
    """Measure PC and DPC of a linear model, where they are known; returns what went wrong.

    The model is ``3 a - 2 b + c`` at ``(1, 1, 1)``, explained by its own weights. PC goes through 2, -1, -2, 0 (MoRF)
    and 2, 4, 3, 0 (LeRF); DPC, which follows the size of the changes, through 2, -1, -3, -4 and 2, 1, -1, -4. The
    points between the ends differ by 5 and by 2 and weigh 27 and 8 of 36.

    Args:
        device: Where.

    Example:
        >>> self_test("cpu")
        ''
    """
    import torch  # noqa: PLC0415

    import verax  # noqa: PLC0415

    weights = torch.tensor([[3.0, -2.0, 1.0]])
    model = torch.nn.Linear(3, 1, bias=False)
    model.weight.data = weights
    try:
        found = verax.evaluate(
            model, torch.ones(1, 3), weights, ["pc", "dpc"], target=1, steps=3, output="logit", device=device
        )
        values = {name: float(found[name].value[0]) for name in ("pc", "dpc")}
    except _BROKEN as error:
        return f"the test failed: {_first_line(error)}"
    wanted = {"pc": 5 * 35 / 36, "dpc": 2 * 35 / 36}
    wrong = [name for name in wanted if abs(values[name] - wanted[name]) > 1e-4]
    return "".join(f"the test gave {values[name]:.5f} for {name}, right is {wanted[name]:.5f}" for name in wrong[:1])


def _own_requirements() -> list[str]:
    try:
        return metadata.requires("verax") or []
    except metadata.PackageNotFoundError:  # run from its source, without having been installed
        return []


def _extra(wanted: Requirement) -> str:
    """The extra to which a requirement belongs; empty if it belongs to none."""
    found = re.search(r"""extra == ['"]([^'"]+)""", str(wanted.marker))
    return found[1] if found else ""


def _always(wanted: Requirement) -> bool:
    """Whether a requirement holds here without any extra: its marker may speak of another system."""
    return wanted.marker is None or (not _extra(wanted) and wanted.marker.evaluate())


def _cannot_import(module: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module(module)
        except _BROKEN as error:
            return f"cannot be imported: {_first_line(error)}"
    return ""


def _cannot_write(folder: Path) -> str:
    """Why a folder, which will be made if it is missing, cannot be written to; empty if it can."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return ""
    except OSError as error:
        return f"{error.strerror} in {there}"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
