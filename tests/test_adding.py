"""The Adding task, taken apart with NumPy and held against its definition."""

import numpy as np
import pytest
import torch

from fastcell import TaskError
from fastcell.tasks import TASKS, find_task
from fastcell.tasks.adding import ADDING, data, examples

PARTS = {"training": 1024, "validation": 256, "test": 256}


def taken_apart(part):
    """Values and markers (N, T) and targets (N,), in float64."""
    inputs = part.inputs.numpy().astype(np.float64)
    return inputs[..., 0].T, inputs[..., 1].T, part.targets.numpy()[:, 0].astype(np.float64)


@pytest.mark.parametrize(("name", "count"), list(PARTS.items()))
def test_every_example_is_as_defined(name, count):
    values, markers, targets = taken_apart(getattr(data(), name))
    assert values.shape == markers.shape == (count, 48)
    assert np.abs(values).max() <= 1
    assert set(np.unique(markers)) == {0, 1}
    assert (markers[:, :24].sum(axis=1) == 1).all()
    assert (markers[:, 24:].sum(axis=1) == 1).all()
    np.testing.assert_allclose(targets, (values * markers).sum(axis=1) / 2, atol=1e-7)


@pytest.mark.parametrize("length", [2, 3, 7])
def test_halves_of_odd_and_short_sequences(length):
    part = examples(200, length, torch.Generator().manual_seed(1))
    _, markers, _ = taken_apart(part)
    assert part.inputs.shape == (length, 200, 2)
    assert (markers[:, : length // 2].sum(axis=1) == 1).all()
    assert (markers[:, length // 2 :].sum(axis=1) == 1).all()


def test_distributions():
    """Uniform values and positions; the target's mean 0 and variance 1/6, each within 5 sigma."""
    count = 100_000
    values, markers, targets = taken_apart(examples(count, 6, torch.Generator().manual_seed(2)))
    histogram, _ = np.histogram(values, bins=20, range=(-1, 1))
    expected = values.size / 20
    assert ((histogram - expected) ** 2 / expected).sum() < 60  # chi-square, 19 degrees: p ~ 4e-6
    np.testing.assert_allclose(markers.mean(axis=0), 1 / 3, atol=5 * np.sqrt(2 / 9 / count))
    assert abs(targets.mean()) < 5 * np.sqrt(1 / 6 / count)
    # Var[y^2] of this triangular density is 1/15 - 1/36.
    assert abs((targets**2).mean() - ADDING.variance) < 5 * np.sqrt((1 / 15 - 1 / 36) / count)


def test_parts_differ_and_do_not_change():
    """Golden sums: results are comparable only while the data stays as it is."""
    parts = data()
    sums = [part.inputs.double().sum().item() for part in (parts.training, parts.validation)]
    assert sums == pytest.approx([1936.6139237, 495.4186621], abs=1e-6)
    assert torch.equal(parts.training.inputs, data().training.inputs)
    assert not torch.equal(parts.validation.inputs, parts.test.inputs)


def test_global_generator_is_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    data()
    assert torch.equal(torch.rand(4), expected)


def test_registry():
    assert find_task("adding") is ADDING is TASKS["adding"]
    with pytest.raises(TaskError, match="expected one of adding, sine; found 'copying'"):
        find_task("copying")
