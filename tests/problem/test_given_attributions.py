"""Attributions as shap, Captum and people hand them over: taken, or refused with the name of what converts them."""

import numpy as np
import pytest
import torch

import verax
from verax.problem.attributed import attributed, plain_attributions

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


def test_an_explanation_of_shap_is_its_values():
    shap = pytest.importorskip("shap")
    values = np.arange(12.0).reshape(4, 3)
    explanation = shap.Explanation(values=values, base_values=np.zeros(4), data=X.numpy())
    assert np.array_equal(plain_attributions(explanation), values)
    assert np.array_equal(plain_attributions({"shap": explanation})["shap"], values)


def test_a_tuple_of_captum_is_its_tensor():
    assert plain_attributions((X,)) is X
    assert plain_attributions({"captum": (X,)})["captum"] is X


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_arrays_are_a_stack(kind):
    leaf = X.clone().requires_grad_()
    stacked = plain_attributions(kind([leaf, -X]))
    assert torch.equal(stacked, torch.stack([X, -X]))
    assert not stacked.requires_grad
    mixed = plain_attributions(kind([X, -X.numpy()]))
    assert np.array_equal(mixed, np.stack([X, -X]))


def test_a_list_of_rows_is_one_attribution():
    assert np.array_equal(plain_attributions({"rows": list(X.numpy())})["rows"], X)


def test_tensors_of_several_inputs_are_refused_with_what_takes_them():
    with pytest.raises(ValueError, match=r"attributions\['ig'\]: .*\(4, 3\) and \(4, 2\).*verax\.interop\.captum\."):
        plain_attributions({"ig": (X, X[:, :2])})


@pytest.mark.parametrize("value", [X, X.numpy(), [[1.0, 2.0]], "text", None, verax.attribution.Gradient()])
def test_anything_else_stays(value):
    assert plain_attributions(value) is value


IMAGES = verax.Problem(verax.Scorer(lambda rows: rows.flatten(1).sum(1), returns="values"), torch.ones(1, 3, 4, 5))


@pytest.mark.parametrize("shape", [(3, 4, 5), (4, 5), (1, 3, 4, 5), (1, 4, 5), (1, 1, 4, 5)])
def test_a_single_input_may_lack_its_axis(shape):
    assert len(attributed(IMAGES, torch.zeros(shape)).attributions[0]) == 1


def test_advice_for_classes_and_for_several():
    with pytest.raises(ValueError, match=r"verax\.interop\.shap\.from_explanation\(explanation, target=\.\.\.\)"):
        attributed(IMAGES, torch.zeros(1, 3, 4, 5, 2))
    with pytest.raises(ValueError, match=r"give each a name"):
        attributed(IMAGES, {"both": torch.zeros(2, 1, 3, 4, 5)})
    with pytest.raises(ValueError, match=r"or a stack \(K, 1, 3, 4, 5\)\.$"):
        attributed(IMAGES, torch.zeros(4, 6))
