"""The command ``verax doctor``: what is installed, what is missing, and whether it works."""

from typing import TYPE_CHECKING, Annotated

import typer

from verax.cli_common import FAILED, examples, one_line_errors, print_json

if TYPE_CHECKING:
    from verax.doctor import Checkup, Device, Extra

EXAMPLES = examples("verax doctor", "verax doctor --json")


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Say what is installed, what is missing, and whether it works.

    Packages with their versions, devices with their memory, what each missing extra would add and how to install it,
    the folder for downloads; and on every device a small computation whose result is known.

    Exit status 0: usable, 1: something required is missing or broken.
    """
    with one_line_errors():
        from verax.doctor import examine

        found = examine()
    if as_json:
        print_json(found.facts())
    else:
        typer.echo("\n".join(_lines(found)))
    raise typer.Exit(FAILED if found.problems else 0)


def _lines(found: "Checkup") -> list[str]:
    width = max((len(one.name) for one in found.packages), default=0)
    lines = [f"verax {found.verax}, Python {found.python}, {found.system}", "", "Required:"]
    lines += [] if found.packages else ["  not known, because Verax runs from its source without being installed"]
    lines += [
        f"  {one.name:{width}}  {one.version or '-':12}  {one.wanted:8}  {one.problem or 'ok'}"
        for one in found.packages
    ]
    lines += ["", "Extras:", *(line for one in found.extras for line in _extra(one))]
    lines += ["", "Devices (each computes PC and DPC of a linear model, which are known):"]
    lines += [f"  {one.name}: {_device(one)}: {one.problem or 'ok'}" for one in found.devices]
    if len(found.devices) == 1:
        built = f"for CUDA {found.cuda}" if found.cuda else "without CUDA"
        lines.append(f"  no GPU that torch can use; this torch is built {built}")
    lines += ["", f"Cache for downloads: {found.cache}: {found.cache_problem or 'ok'}", ""]
    lines += [f"To mend: {problem}" for problem in found.problems] or ["Verax can be used."]
    return lines


def _extra(one: "Extra") -> list[str]:
    if one.installed:
        versions = ", ".join(f"{package.name} {package.version}" for package in one.packages)
        return [f"  {one.name}: installed ({versions})"]
    problems = ", ".join(f"{package.name} {package.problem}" for package in one.packages if package.problem)
    return [f"  {one.name}: {problems}", f"    would add {one.adds}", f"    {one.install}"]


def _device(one: "Device") -> str:
    if one.memory_gib is None or one.free_gib is None:
        return one.what
    return f"{one.what}, {one.memory_gib:.0f} GiB, {one.free_gib:.0f} GiB free"
