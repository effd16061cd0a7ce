"""What an audit says follows from its findings."""

from verax.auditing import Audit, Finding


def finding(metric, trial, *, case="linear", replacement="Baseline", kind="baseline", ties=0.0, **figures):
    told = {"value": 0.9, "low": 0.8, "high": 1.0, "passed": True, "inputs": 64, "says": "", "scale": None} | figures
    family, _, about = trial.partition(": ")
    explanation, _, against = about.rpartition(" from ") if family == "tells_apart" else (about, "", "")
    return Finding(metric, replacement, case, family, explanation, against, kind=kind, ties=ties, **told)


def audit_of(findings):
    return Audit(findings, (), (), inputs=0, rows=0, seconds=0.0, level=0.95, known_limitations={})


def test_what_was_tried_on_one_case_alone_is_not_recommended():
    wide = [finding("pc", "truth_wins: -a", case=f"case {at}", passed=at > 0) for at in range(12)]
    narrow = [finding("srg", "truth_wins: -a", replacement="Blur(sigma=1.0)")]
    assert "use pc, which puts the truth above 11 of 12 false ones" in audit_of([*wide, *narrow]).sentences[0]


def test_most_cases_make_a_blind_spot():
    rows = [finding("pc", "truth_wins: -a", case=f"case {at}", ties=1.0 if at < 2 else 0.0) for at in range(3)]
    assert audit_of(rows).blind_spots == {"pc": ["-a"]}
    assert audit_of(rows[1:]).blind_spots == {}  # half of them are not most
    worse = [finding("dpc", "truth_wins: -a", value=0.1, low=0.0, high=0.3, passed=False)]
    assert audit_of(worse).misled == {"dpc": ["-a"]}
    assert audit_of(rows).misled == {}


def test_the_explanation_that_is_told_with_the_fewest_inputs_counts():
    rows = [
        finding("pc", f"tells_apart: {which} from {what}", value=value, passed=value <= 64)
        for which, value in (("shap from here", 12.0), ("lime", 90.0))
        for what in ("noise of its size", "its permutation", "its negation")
    ]
    assert audit_of(rows).inputs_needed == {"pc": 12.0}
    wrong = [finding("pc", "tells_apart: a from its negation", value=5.0, passed=False, says="scores the wrong one")]
    assert audit_of(wrong).inputs_needed == {"pc": float("inf")}
