"""Frozen values from tables and back."""

import pytest

from verax import attribution
from verax.attribution import IntegratedGradients, LimeImage, Slic
from verax.core.settings import made, plain


@pytest.mark.parametrize("modality", ["tabular", "image"])
def test_every_configuration_of_the_grid_survives_the_way_to_a_table_and_back(modality):
    for configuration in attribution.grid(modality):
        assert made(type(configuration), plain(configuration)) == configuration


def test_a_nested_value_is_a_table_with_its_class():
    configuration = LimeImage(segmenter=Slic(48), pixel_mean=(0.5,), pixel_std=(0.25,))
    table = plain(configuration)
    assert table["segmenter"] == {"method": "Slic", "n_segments": 48, "sigma": 0.0}
    assert table["pixel_mean"] == [0.5]
    assert made(LimeImage, table) == configuration


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match="pionts: IntegratedGradients has no such setting; it has baseline, "):
        made(IntegratedGradients, {"pionts": 3})
    with pytest.raises(ValueError, match="segmenter: expected a table with method Quickshift or Slic, found"):
        made(LimeImage, {"segmenter": {"method": "Voronoi"}})
