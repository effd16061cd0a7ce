"""``verax.interop``: its modules are there after ``import verax``, and loaded when they are first used."""

import subprocess
import sys

import pytest

import verax


def test_modules_are_there_after_import_verax():
    program = (
        "import sys, verax\n"
        "assert dir(verax.interop) == ['captum', 'quantus', 'shap']\n"
        "assert not [name for name in sys.modules if name.startswith('verax.interop.')]\n"
        "verax.interop.captum.infidelity, verax.interop.shap.from_explanation\n"
        "assert 'captum' not in sys.modules and 'quantus' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_quantus_is_loaded_when_it_is_used():
    pytest.importorskip("quantus")
    assert verax.interop.quantus.PredictionChange.name == "Prediction Change"


def test_another_name_is_refused():
    with pytest.raises(AttributeError, match=r"module 'verax.interop' has no attribute 'lime'"):
        verax.interop.lime  # noqa: B018
