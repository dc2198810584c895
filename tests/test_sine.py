"""Sine continuation, held against the recurrence that every sampled sine obeys."""

import numpy as np
import pytest
import torch

from fastcell import Protocol, library, train
from fastcell.tasks import find_task
from fastcell.tasks.sine import SINE, data, examples

PARTS = {"training": 1024, "validation": 256, "test": 256}


@pytest.mark.parametrize(("name", "count"), list(PARTS.items()))
def test_every_example_is_a_sine_and_its_next_value(name, count):
    """u[t + 1] = 2 cos(w) u[t] - u[t - 1], with one w from 0.1 to 1 for the whole wave."""
    part = getattr(data(), name)
    assert part.inputs.shape == (48, count, 1)
    assert part.targets.shape == (count, 1)
    wave = torch.cat([part.inputs, part.targets.unsqueeze(0)])[..., 0].double().numpy()
    outer, inner = wave[:-2] + wave[2:], wave[1:-1]
    double_cosine = (outer * inner).sum(axis=0) / (inner * inner).sum(axis=0)
    np.testing.assert_allclose(outer, double_cosine * inner, atol=1e-5)
    pace = np.arccos(double_cosine / 2)
    assert pace.min() > 0.1 - 1e-3
    assert pace.max() < 1 + 1e-3
    assert np.ptp(pace) > 0.8


def test_variance():
    """Mean 0 and variance 1/2, each within 5 sigma; y^2 = (1 - cos) / 2 has variance 1/8."""
    count = 100_000
    targets = examples(count, 3, torch.Generator().manual_seed(2)).targets.double()
    assert abs(targets.mean()) < 5 * np.sqrt(1 / 2 / count)
    assert abs(targets.square().mean() - SINE.variance) < 5 * np.sqrt(1 / 8 / count)


def test_data_does_not_change():
    """A golden sum: results are comparable only while the data stays as it is."""
    parts = data()
    assert torch.equal(parts.test.inputs, data().test.inputs)
    assert parts.training.inputs.double().square().sum().item() == pytest.approx(
        24595.9089, abs=1e-2
    )
    assert not torch.equal(parts.validation.inputs, parts.test.inputs)


def test_a_cell_trains_on_it():
    assert find_task("sine") is SINE
    result = train(library.gru, "sine", Protocol(epochs=3, hidden_size=16), seed=1)
    assert result.status == "done"
    assert result.test < 0.5
