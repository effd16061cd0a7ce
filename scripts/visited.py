"""How much of Verax one evaluation visits: ``python scripts/visited.py`` prints modules and functions.

Integrated Gradients rated by Infidelity, after everything is imported: each module and function of Verax that is
entered counts once, those that are entered while modules are imported do not.
"""

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch

import verax
from verax.attribution import IntegratedGradients
from verax.metrics import Infidelity

PARTS = ("<module>", "<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")  # of no name of their own


def evaluation() -> Any:
    """What is traced, from the problem on."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    problem = verax.Problem(model, torch.randn(16, 8))
    return verax.evaluate(problem, {"IG": IntegratedGradients()}, [Infidelity()])


def visited(work: Callable[[], object]) -> set[tuple[str, CodeType]]:
    """The module and the code of every function of Verax that is entered."""
    entered: set[tuple[str, CodeType]] = set()

    def enter(frame: FrameType, event: str, argument: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("verax.") and frame.f_code.co_name not in PARTS:
            entered.add((module, frame.f_code))

    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return entered


def main() -> None:
    """Print both numbers."""
    evaluation()  # imports what is imported when it is first used
    entered = visited(evaluation)
    modules = {module for module, _ in entered}
    print(f"one evaluation visits {len(modules)} modules and {len(entered)} functions")


if __name__ == "__main__":
    main()
