"""The command ``verax doctor``: what is installed, what is missing, and whether it works."""

from typing import TYPE_CHECKING, Annotated

import typer

from verax.cli.common import FAILED, examples, one_line_errors, show

if TYPE_CHECKING:
    from verax.cli.installation import Checkup, Device, Extra

EXAMPLES = examples("verax doctor", "verax doctor --json")


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Say what is installed, what is missing, and whether it works.

    Packages with their versions, devices with their memory, what each missing extra would add and how to install it,
    the folder for downloads; and on every device a small computation whose result is known.

    Exit status 0: usable, 1: something required is missing or broken.
    """
    with one_line_errors():
        from verax.cli.installation import examine

        found = examine()
    show(found.facts(), "\n".join(_lines(found)), as_json=as_json)
    raise typer.Exit(FAILED if found.problems else 0)


def _lines(found: "Checkup") -> list[str]:
    width = max((len(package.name) for package in found.packages), default=0)
    lines = [f"verax {found.verax}, Python {found.python}, {found.system}", "", "Required:"]
    lines += [] if found.packages else ["  not known, because Verax runs from its source without being installed"]
    lines += [
        f"  {package.name:{width}}  {package.version or '-':12}  {package.wanted:8}  {package.problem or 'ok'}"
        for package in found.packages
    ]
    lines += ["", "Extras:", *(line for extra in found.extras for line in _extra(extra))]
    lines += ["", "For work on Verax itself:"]
    state = {True: "installed", False: "not installed"}
    lines += [f"  {extra.name}: {state[extra.installed]}; {extra.adds}" for extra in found.development]
    lines += ["", "Devices (each computes PC and DPC of a linear model, which are known):"]
    lines += [f"  {device.name}: {_device(device)}: {device.problem or 'ok'}" for device in found.devices]
    if len(found.devices) == 1:
        built = f"for CUDA {found.cuda}" if found.cuda else "without CUDA"
        lines.append(f"  no GPU that torch can use; this torch is built {built}")
    lines += ["", f"Cache for downloads: {found.cache}: {found.cache_problem or 'ok'}", ""]
    lines += [f"To mend: {problem}" for problem in found.problems] or ["Verax can be used."]
    return lines


def _extra(extra: "Extra") -> list[str]:
    if extra.installed:
        versions = ", ".join(f"{package.name} {package.version}" for package in extra.packages)
        return [f"  {extra.name}: installed ({versions})"]
    problems = ", ".join(f"{package.name} {package.problem}" for package in extra.packages if package.problem)
    return [f"  {extra.name}: {problems}", f"    would add {extra.adds}", f"    {extra.install}"]


def _device(device: "Device") -> str:
    if device.memory_gib is None or device.free_gib is None:
        return device.what
    return f"{device.what}, {device.memory_gib:.0f} GiB, {device.free_gib:.0f} GiB free"
