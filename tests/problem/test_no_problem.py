"""A bare model where a problem belongs: every verb says what to pass. Outside the tests types are not checked."""

import subprocess
import sys

PROGRAM = """
import torch, verax
model, ones, gradient = torch.nn.Linear(3, 2), torch.ones(2, 3), verax.attribution.Gradient()
calls = (
    lambda: verax.explain(model, {"gradient": gradient}),
    lambda: gradient(model),
    lambda: verax.evaluate(model, ones),
    lambda: verax.compare(model, {"ones": ones}),
    lambda: verax.limits(model),
    lambda: verax.stream(model, [ones], {"gradient": gradient}),
    lambda: verax.tune(model),
    lambda: verax.metrics.PredictionChange()(model, ones),
)
for call in calls:
    try:
        call()
    except TypeError as error:
        print(error)
"""
MESSAGE = "problem: expected a verax.Problem, got Linear; make one of model and rows: verax.Problem(model, inputs)."


def test_every_verb_names_what_it_takes():
    program = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert program.stdout.splitlines() == [MESSAGE] * 8
