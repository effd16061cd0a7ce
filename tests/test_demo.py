"""The demo runs, prints its table, and shows what it claims to show."""

import importlib.util
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_prints_its_table_and_prefers_the_gradient(demo, capsys):
    lines = demo.main()
    printed = capsys.readouterr().out.splitlines()

    (rule,) = [number for number, text in enumerate(printed) if text and not text.strip("-")]
    body = printed[rule + 1 : printed.index("", rule)]
    assert len(body) == len(lines) == 6
    for text, line in zip(body, lines, strict=True):
        assert line.attribution in text
        assert f"{line.dpc:+.4f}" in text
    assert body[0].startswith("logistic")
    assert body[3].startswith("MLP")

    logistic = {line.attribution: line for line in lines if line.model == "logistic"}
    assert logistic["gradient"].dpc > logistic["random"].dpc
    assert logistic["gradient"].infidelity < logistic["random"].infidelity
    assert all(line.accuracy > 0.9 and line.infidelity_error > 0 for line in lines)


def test_the_demo_gives_the_same_numbers_again(demo):
    data = demo.load()
    first, second = (demo.measure("logistic", demo.fit(demo.nn.Linear(30, 1), data), data) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert (one.pc, one.dpc, one.infidelity, one.rows) == (other.pc, other.dpc, other.infidelity, other.rows)
