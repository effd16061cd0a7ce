"""The command verax doctor: what is installed, what is missing, and whether it works."""

import contextlib
import importlib
import platform
import warnings
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Annotated, Any

import typer
from packaging.requirements import Requirement

from verax.cli import common
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


Facts = dict[str, Any]  # as JSON shows them


def examine(needs: Sequence[str] | None = None) -> Facts:
    """Look at everything that the installed package says it needs, or at other needs; imports what is required."""
    import torch  # as everything that takes long to import

    import verax
    from verax.paper.downloads import cache_folder

    needed = common.requirements() if needs is None else [Requirement(line) for line in needs]
    # a marker may speak of another system
    required = [
        requirement
        for requirement in needed
        if not common.extra_of(requirement) and (not requirement.marker or requirement.marker.evaluate())
    ]
    packages, groups, tried = [package(each, load=True) for each in required], extras(needed), devices()
    cache = cache_folder()
    problems = [f"{part['name']}: {part['problem']}" for part in (*packages, *tried) if part["problem"]]
    return {
        "verax": verax.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": packages,
        "extras": [extra for extra in groups if extra["name"] not in DEVELOPMENT],
        "development": [extra for extra in groups if extra["name"] in DEVELOPMENT],
        "devices": tried,
        "cuda": torch.version.cuda,
        "cache": str(cache),
        "cache_problem": common.why_not_writable(cache),
        "problems": problems,
        "usable": not problems,
    }


def package(requirement: Requirement, *, load: bool = False) -> Facts:
    """Which versions of a package are required, which one is installed, and what is wrong with it."""
    version, problem = None, "missing"
    with contextlib.suppress(metadata.PackageNotFoundError):
        version, problem = metadata.version(requirement.name), ""
        if not requirement.specifier.contains(version, prereleases=True):
            problem = f"too old or too new: {version} is installed, expected {requirement.specifier}"
        elif load:
            problem = _cannot_import(common.module_name(requirement.name))
    required = str(requirement.specifier)
    return {"name": requirement.name, "required": required, "version": version, "problem": problem}


def extras(needed: Iterable[Requirement]) -> list[Facts]:
    """Packages that are needed for some things only, and the command that installs them."""
    groups: dict[str, list[Facts]] = {}
    for requirement in needed:
        name = common.extra_of(requirement)
        here = not requirement.marker or requirement.marker.evaluate({"extra": name})
        if here and name not in ("", "all"):  # all of them is no extra of its own
            groups.setdefault(name, []).append(package(requirement))
    return [
        {"name": name, "adds": ADDS.get(name, ""), "packages": packages, "install": f"pip install 'verax[{name}]'"}
        | {"installed": not any(package["problem"] for package in packages)}
        for name, packages in sorted(groups.items())
    ]


def devices() -> list[Facts]:
    """Where models can run here, the CPU first, each tried; the CPU and MPS share the machine's memory."""
    import torch

    def tried(name: str, what: str, free: float | None = None, total: float | None = None) -> Facts:
        return {"name": name, "what": what, "problem": self_test(name), "memory_gib": total, "free_gib": free}

    states = [tried("cpu", f"{available_cores()} cores, torch uses {torch.get_num_threads()}")]
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        memory = (count / 2**30 for count in torch.cuda.mem_get_info(number))
        states.append(tried(f"cuda:{number}", torch.cuda.get_device_name(number), *memory))
    if torch.backends.mps.is_available():
        states.append(tried("mps", "Apple's graphics processor"))
    return states


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


EXAMPLES = common.examples("verax doctor", "verax doctor --json")


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Say what is installed, what is missing, and whether it works.

    Packages with their versions, devices with their memory, what each missing extra would add and how to install it,
    the folder for downloads; and on every device a small computation whose result is known.

    Exit status 0: usable, 1: something required is missing or broken.
    """
    with common.one_line_errors():
        facts = examine()
    common.show(facts, "\n".join(_lines(facts)), as_json=as_json)
    raise typer.Exit(0 if facts["usable"] else common.FAILED)


def _lines(facts: Facts) -> list[str]:
    packages, tried, cuda = facts["packages"], facts["devices"], facts["cuda"]
    width = max((len(package["name"]) for package in packages), default=0)
    lines = [f"verax {facts['verax']}, Python {facts['python']}, {facts['system']}", "", "Required:"]
    lines += [] if packages else ["  not known, because Verax runs from its source without being installed"]
    for package in packages:
        version, state = package["version"] or "-", package["problem"] or "ok"
        lines.append(f"  {package['name']:{width}}  {version:12}  {package['required']:8}  {state}")
    lines += ["", "Extras:"]
    for extra in facts["extras"]:
        shown = "version" if extra["installed"] else "problem"
        states = ", ".join(f"{part['name']} {part[shown]}" for part in extra["packages"] if part[shown])
        if extra["installed"]:
            lines.append(f"  {extra['name']}: installed ({states})")
        else:
            lines += [f"  {extra['name']}: {states}", f"    would add {extra['adds']}", f"    {extra['install']}"]
    lines += ["", "For work on Verax itself:"]
    state = {True: "installed", False: "not installed"}
    lines += [f"  {extra['name']}: {state[extra['installed']]}; {extra['adds']}" for extra in facts["development"]]
    lines += ["", "Devices (each computes PC and DPC of a linear model, which are known):"]
    for device in tried:
        total, free = device["memory_gib"], device["free_gib"]
        memory = "" if total is None else f", {total:.0f} GiB, {free:.0f} GiB free"
        lines.append(f"  {device['name']}: {device['what']}{memory}: {device['problem'] or 'ok'}")
    if len(tried) == 1:
        lines.append(
            f"  no GPU that torch can use; this torch is built {f'for CUDA {cuda}' if cuda else 'without CUDA'}"
        )
    lines += ["", f"Cache for downloads: {facts['cache']}: {facts['cache_problem'] or 'ok'}", ""]
    return lines + ([f"To mend: {problem}" for problem in facts["problems"]] or ["Verax can be used."])
