"""Frozen values from tables and back."""

import pytest

from verax import attribution
from verax.attribution import IntegratedGradients, LimeImage, Slic
from verax.core.registry import from_dict, to_dict
from verax.metrics import PredictionChange
from verax.problem.replacement import Baseline, Nudge, Own, Toward


@pytest.mark.parametrize("modality", ["tabular", "image"])
def test_every_configuration_of_the_grid_survives_the_way_to_a_table_and_back(modality):
    for configuration in attribution.grid(modality):
        assert from_dict(type(configuration), to_dict(configuration)) == configuration


def test_a_nested_value_is_a_table_with_its_class():
    configuration = LimeImage(segmenter=Slic(48), pixel_mean=(0.5,), pixel_std=(0.25,))
    table = to_dict(configuration)
    assert table["segmenter"] == {"method": "Slic", "n_segments": 48, "sigma": 0.0}
    assert table["pixel_mean"] == [0.5]
    assert from_dict(LimeImage, table) == configuration


@pytest.mark.parametrize("replacement", [None, Baseline(), Toward(0.25), Nudge(0.5)], ids=repr)
def test_a_value_of_an_open_family_is_a_table_with_its_name(replacement):
    metric = PredictionChange(replacement=replacement)
    table = to_dict(metric)
    if replacement is None:
        assert "replacement" not in table
        table["replacement"] = None
    else:
        assert table["replacement"]["name"] == type(replacement).__name__.lower()
    assert from_dict(PredictionChange, table) == metric


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match="pionts: IntegratedGradients has no such setting; it has baseline, "):
        from_dict(IntegratedGradients, {"pionts": 3})
    with pytest.raises(ValueError, match="segmenter: expected a table with method Quickshift or Slic, got"):
        from_dict(LimeImage, {"segmenter": {"method": "Voronoi"}})
    for wrong in ({"name": "nugde", "epsilon": 1.0}, {"method": "Nudge", "epsilon": 1.0}, "nudge", 3):
        with pytest.raises(ValueError, match=r"replacement: expected a table with name .*nudge"):
            from_dict(PredictionChange, {"replacement": wrong})
    with pytest.raises(ValueError, match="replacement: size: Nudge has no such setting; it has epsilon"):
        from_dict(PredictionChange, {"replacement": {"name": "nudge", "size": 0.1}})
    with pytest.raises(ValueError, match="replacement: epsilon: expected a positive, finite number, got"):
        from_dict(PredictionChange, {"replacement": {"name": "nudge", "epsilon": 0.0}})
    with pytest.raises(ValueError, match="segmenter: expected a table with method Quickshift or Slic, got None"):
        from_dict(LimeImage, {"segmenter": None})


def test_a_function_cannot_be_held_by_a_file():
    with pytest.raises(ValueError, match="a file cannot hold the function"):
        to_dict(PredictionChange(replacement=Own(max)))
