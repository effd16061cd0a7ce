"""The command verax doctor: what is installed, what is missing, and whether it works."""

import importlib
import platform
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated, Any

import typer
from packaging.requirements import Requirement

from verax.cli.common import (
    FAILED,
    examples,
    extra_of,
    module_name,
    one_line_errors,
    requirements,
    show,
    why_not_writable,
)
from verax.core.system import available_cores

ADDS = {
    "study": "studies and their reports: verax study run",
    "tune": "search for the best method and settings: verax tune",
    "onnx": "models in ONNX files: verax evaluate --model m.onnx",
    "sklearn-files": "scikit-learn models in .skops files: verax evaluate --model m.skops",
    "lake": "rows and attributions in many Parquet files: verax lake",
    "ray": "studies and lakes on a Ray cluster: verax study run --engine ray",
    "captum": "attributions and layers of Captum beside verax.interop.captum",
    "shap": "explainers of SHAP beside verax.interop.shap",
    "text": "token attributions of transformers: verax.text",
    "paper": "the paper's data and studies: verax study run paper-isic",
    "stream": "quantiles of streams: verax.stream(..., quantiles=True)",
    "dev": "tests, checks and the libraries that results are compared with",
    "docs": "building the documentation",
    "bench": "benchmarks beside the package lime",
}
"""What each extra is for."""

DEVELOPMENT = ("dev", "docs", "bench")
"""Extras for work on Verax itself, which its users do not miss."""

# whatever a package may raise that is there, but broken or built for another version of its neighbours
_BROKEN = (ImportError, OSError, ValueError, AttributeError, RuntimeError)


@dataclass(frozen=True)
class Package:
    """A package that is required: which versions, which one is installed, and what is wrong with it."""

    name: str
    required: str
    version: str | None
    problem: str


@dataclass(frozen=True)
class Extra:
    """Packages that are needed for some things only, and the command that installs them."""

    name: str
    adds: str
    packages: tuple[Package, ...]
    install: str
    installed: bool


@dataclass(frozen=True)
class Device:
    """Where models can run, and what went wrong in a small test of the metrics there."""

    name: str  # as ``--device`` takes it
    what: str  # its model, or how many cores and threads
    problem: str
    memory_gib: float | None = None  # the CPU and MPS share the machine's
    free_gib: float | None = None


@dataclass(frozen=True)
class Checkup:
    """All that was found; a problem is empty where there is none."""

    verax: str
    python: str
    system: str
    packages: tuple[Package, ...]
    extras: tuple[Extra, ...]
    development: tuple[Extra, ...]  # what work on Verax itself needs
    devices: tuple[Device, ...]  # the CPU first
    cuda: str | None  # the version that torch was built for
    cache: str
    cache_problem: str

    @property
    def problems(self) -> list[str]:
        """What must be mended before Verax can be used."""
        parts: list[Package | Device] = [*self.packages, *self.devices]
        return [f"{part.name}: {part.problem}" for part in parts if part.problem]

    def facts(self) -> dict[str, Any]:
        return asdict(self) | {"problems": self.problems, "usable": not self.problems}


def examine(needs: Sequence[str] | None = None) -> Checkup:
    """Look at everything that the installed package says it needs, or at other needs; imports what is required."""
    import torch  # as everything that takes long to import

    import verax
    from verax.paper.downloads import cache_folder

    needed = requirements() if needs is None else [Requirement(line) for line in needs]
    # a marker may speak of another system
    required = [
        requirement
        for requirement in needed
        if not extra_of(requirement) and (not requirement.marker or requirement.marker.evaluate())
    ]
    groups = extras(needed)
    cache = cache_folder()
    return Checkup(
        verax=verax.__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        packages=tuple(package(requirement, load=True) for requirement in required),
        extras=tuple(extra for extra in groups if extra.name not in DEVELOPMENT),
        development=tuple(extra for extra in groups if extra.name in DEVELOPMENT),
        devices=devices(),
        cuda=torch.version.cuda,
        cache=str(cache),
        cache_problem=why_not_writable(cache),
    )


def package(requirement: Requirement, *, load: bool = False) -> Package:
    """Look for a package, and import it if asked to."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return Package(requirement.name, str(requirement.specifier), None, "missing")
    problem = ""
    if not requirement.specifier.contains(version, prereleases=True):
        problem = f"too old or too new: {version} is installed, expected {requirement.specifier}"
    elif load:
        problem = _cannot_import(module_name(requirement.name))
    return Package(requirement.name, str(requirement.specifier), version, problem)


def extras(needed: Iterable[Requirement]) -> tuple[Extra, ...]:
    """The extras among requirements, and whether they are there."""
    groups: dict[str, list[Requirement]] = {}
    for requirement in needed:
        name = extra_of(requirement)
        here = not requirement.marker or requirement.marker.evaluate({"extra": name})
        if here and name not in ("", "all"):  # all of them is no extra of its own
            groups.setdefault(name, []).append(requirement)
    states = []
    for name, members in sorted(groups.items()):
        packages = tuple(map(package, members))
        installed = not any(package.problem for package in packages)
        states.append(Extra(name, ADDS.get(name, ""), packages, f"pip install 'verax[{name}]'", installed))
    return tuple(states)


def devices() -> tuple[Device, ...]:
    """Where models can run here, each tried."""
    import torch

    states = [Device("cpu", f"{available_cores()} cores, torch uses {torch.get_num_threads()}", self_test("cpu"))]
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = (count / 2**30 for count in torch.cuda.mem_get_info(number))
        name = f"cuda:{number}"
        states.append(Device(name, torch.cuda.get_device_name(number), self_test(name), total, free))
    if torch.backends.mps.is_available():
        states.append(Device("mps", "Apple's graphics processor", self_test("mps")))
    return tuple(states)


def self_test(device: str) -> str:
    """Measure PC and DPC of a linear model, where they are known; returns what went wrong.

    The model is ``3 a - 2 b + c`` at ``(1, 1, 1)``, explained by its own weights. PC goes through 2, -1, -2, 0 (MoRF)
    and 2, 4, 3, 0 (LeRF); DPC, which follows the size of the changes, through 2, -1, -3, -4 and 2, 1, -1, -4. The
    points between the ends differ by 5 and by 2 and weigh 27 and 8 of 36.
    """
    import torch

    import verax
    from verax.data.array_files import first_line

    weights = torch.tensor([[3.0, -2.0, 1.0]])
    model = torch.nn.Linear(3, 1, bias=False)
    model.weight.data = weights
    try:
        scorer = verax.Scorer(model, returns="logits")
        problem = verax.Problem(scorer, torch.ones(1, 3), target=1, output="logit", device=device)
        by_size = verax.metrics.DirectedPredictionChange("magnitude", steps=3)
        metrics = [verax.metrics.PredictionChange(steps=3), by_size]
        evaluation = verax.evaluate(problem, weights, metrics)
        values = {name: float(evaluation[name].value[0]) for name in ("pc", "dpc")}
    except _BROKEN as error:
        return f"the test failed: {first_line(error)}"
    for name, right in {"pc": 5 * 35 / 36, "dpc": 2 * 35 / 36}.items():
        if abs(values[name] - right) > 1e-4:
            return f"the test gave {values[name]:.5f} for {name}, right is {right:.5f}"
    return ""


def _cannot_import(module: str) -> str:
    from verax.data.array_files import first_line

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module(module)
        except _BROKEN as error:
            return f"cannot be imported: {first_line(error)}"
    return ""


EXAMPLES = examples("verax doctor", "verax doctor --json")


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Say what is installed, what is missing, and whether it works.

    Packages with their versions, devices with their memory, what each missing extra would add and how to install it,
    the folder for downloads; and on every device a small computation whose result is known.

    Exit status 0: usable, 1: something required is missing or broken.
    """
    with one_line_errors():
        examination = examine()
    show(examination.facts(), "\n".join(_lines(examination)), as_json=as_json)
    raise typer.Exit(FAILED if examination.problems else 0)


def _lines(checkup: Checkup) -> list[str]:
    width = max((len(package.name) for package in checkup.packages), default=0)
    lines = [f"verax {checkup.verax}, Python {checkup.python}, {checkup.system}", "", "Required:"]
    lines += [] if checkup.packages else ["  not known, because Verax runs from its source without being installed"]
    lines += [
        f"  {package.name:{width}}  {package.version or '-':12}  {package.required:8}  {package.problem or 'ok'}"
        for package in checkup.packages
    ]
    lines += ["", "Extras:"]
    for extra in checkup.extras:
        if extra.installed:
            versions = ", ".join(f"{package.name} {package.version}" for package in extra.packages)
            lines.append(f"  {extra.name}: installed ({versions})")
        else:
            problems = ", ".join(f"{package.name} {package.problem}" for package in extra.packages if package.problem)
            lines += [f"  {extra.name}: {problems}", f"    would add {extra.adds}", f"    {extra.install}"]
    lines += ["", "For work on Verax itself:"]
    state = {True: "installed", False: "not installed"}
    lines += [f"  {extra.name}: {state[extra.installed]}; {extra.adds}" for extra in checkup.development]
    lines += ["", "Devices (each computes PC and DPC of a linear model, which are known):"]
    for device in checkup.devices:
        memory = "" if device.memory_gib is None else f", {device.memory_gib:.0f} GiB, {device.free_gib:.0f} GiB free"
        lines.append(f"  {device.name}: {device.what}{memory}: {device.problem or 'ok'}")
    if len(checkup.devices) == 1:
        built = f"for CUDA {checkup.cuda}" if checkup.cuda else "without CUDA"
        lines.append(f"  no GPU that torch can use; this torch is built {built}")
    lines += ["", f"Cache for downloads: {checkup.cache}: {checkup.cache_problem or 'ok'}", ""]
    lines += [f"To mend: {problem}" for problem in checkup.problems] or ["Verax can be used."]
    return lines
