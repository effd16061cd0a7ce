"""Settings read back from canonical forms."""

from dataclasses import asdict

import pytest

from verax.attribution import grid
from verax.study.summary import method_of, settings_of, with_other_input_factor

EVERYTHING = [member for modality in ("tabular", "image") for member in grid(modality)]


def test_every_configuration_of_the_paper_reads_back():
    for member in EVERYTHING:
        assert method_of(member.canonical) == type(member).__name__
        found = settings_of(member.canonical)
        given = asdict(member)
        if "segmenter" in given:
            assert method_of(found.pop("segmenter")) == type(member.segmenter).__name__
            del given["segmenter"]
        assert found == given


def test_pairs_are_configurations_of_the_grid_that_differ_in_the_multiplication_alone():
    names = {member.canonical for member in EVERYTHING}
    paired = [name for name in names if with_other_input_factor(name) is not None]
    assert {method_of(name) for name in paired} == {"IntegratedGradients", "DeepLiftSHAP"}
    for name in paired:
        other = with_other_input_factor(name)
        assert other in names - {name}
        assert with_other_input_factor(other) == name
        assert {**settings_of(name), "multiply_by_inputs": None} == {**settings_of(other), "multiply_by_inputs": None}


@pytest.mark.parametrize(
    "text", ["", "Gradient", "Gradient(", "Gradient() + 1", "Gradient(0.1)", "a = Gradient()", "1"]
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="expected a form such as"):
        settings_of(text)


def test_nothing_is_run(tmp_path):
    victim = tmp_path / "made"
    call = f"__import__('pathlib').Path({str(victim)!r}).touch()"
    assert settings_of(f"Gradient(a={call})") == {"a": call}
    with pytest.raises(ValueError, match="malformed"):
        settings_of(f"Gradient(a=[{call} for _ in 'x'])")
    assert not victim.exists()
