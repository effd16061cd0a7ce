"""Classes by name: found, refused, defined twice."""

import pytest

from verax.core.registry import Registry, unknown


def kind(name, module="somewhere"):
    return type(name, (), {"__module__": module})


def test_a_class_is_found_by_its_name_in_the_order_of_definition():
    known = Registry("thing")
    first, second = kind("First"), kind("Second")
    known.add("b", first)
    known.add("a", second)
    assert known.get("b") is first
    assert list(known) == ["b", "a"]
    assert list(known.values()) == [first, second]


def test_another_class_of_the_same_name_is_refused_and_both_are_named():
    known = Registry("metric")
    known.add("mine", kind("One", "first_module"))
    with pytest.raises(ValueError, match=r"metric: 'mine' .*first_module\.One.*second_module\.Other"):
        known.add("mine", kind("Other", "second_module"))


def test_a_class_that_is_defined_again_takes_its_place():
    known = Registry("metric")
    known.add("mine", kind("Mine", "notebook"))
    again = kind("Mine", "notebook")
    known.add("mine", again)
    assert known.get("mine") is again


@pytest.mark.parametrize("name", ["helco", "Heloc", "heloc "])
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(name):
    assert "did you mean 'heloc'?" in unknown(name, ["heloc", "isic"])


@pytest.mark.parametrize("name", [None, 3, "something else", ["pc"]])
def test_what_is_no_name_is_refused_with_what_there_is(name):
    known = Registry("thing")
    known.add("pc", kind("PC"))
    with pytest.raises(ValueError, match="metrics: expected pc, got"):
        known.get(name, "metrics")


@pytest.mark.parametrize(
    "name", ["sensitivity_max", "max_sensitivity", "sensitivity-max", "SensitivityMax", "MaxSensitivity"]
)
def test_a_metric_of_stability_is_not_taken_for_one_of_faithfulness(name):
    words = unknown(name, ["pc", "sensitivity_n"])
    assert "did you mean" not in words
    assert "captum.metrics.sensitivity_max" in words
