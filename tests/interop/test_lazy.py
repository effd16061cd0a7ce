"""``verax.interop``: a module of it is loaded when it is first used; ``test_import.py`` looks that none is before."""

import pytest

import verax


def test_quantus_is_loaded_when_it_is_used():
    pytest.importorskip("quantus")
    assert verax.interop.quantus.PredictionChange.name == "Prediction Change"


def test_another_name_is_refused():
    with pytest.raises(AttributeError, match=r"module 'verax.interop' has no attribute 'lime'"):
        verax.interop.lime  # noqa: B018
