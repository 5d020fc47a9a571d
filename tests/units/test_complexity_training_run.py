"""The bill of a training run against published ones."""

import pytest

from helpers.complexity.training_run import training_run

A100, H100 = 312e12, 989e12


def test_by_hand():
    rows = training_run(10**9, 20 * 10**9, 1, A100, 0.4)
    assert rows == {
        "flops": 12 * 10**19,
        "days": pytest.approx(11.13, abs=0.005),
        "bytes": 16 * 10**9,
        "chinchilla_tokens": 20 * 10**9,
    }


@pytest.mark.parametrize(
    ("parameters", "tokens", "published"),
    [
        (174.6e9, 300e9, 3.14e23),  # GPT-3: Brown et al. (2020), table D.1
        (405e9, 15.6e12, 3.8e25),  # Llama 3: Grattafiori et al. (2024), section 3.2
    ],
)
def test_flops_are_those_that_the_papers_give(parameters, tokens, published):
    assert training_run(parameters, tokens, 1, A100, 1.0)["flops"] == pytest.approx(published, rel=0.005)


def test_llama_65b_used_about_half_of_its_gpus():
    """Touvron et al. (2023): 65.2 billion parameters, 1.4 trillion tokens, 2048 A100 (2.4), 1,022,362 GPU hours (table
    15)."""
    at_the_peak = training_run(65.2e9, 1.4e12, 2048, A100, 1.0)["days"]
    assert at_the_peak / (1_022_362 / 2048 / 24) == pytest.approx(0.477, abs=0.001)
