"""The inference kernel must compute what the training kernel computes, in every language."""

import pathlib

import kernels
import pytest
from driftgate.testing import assert_no_drift

CONTRACT = pathlib.Path(__file__).with_name("contract.yaml")
SLICES = {"language": kernels.LANGUAGES}


def test_int8_kernel_keeps_the_contract():
    result = assert_no_drift(kernels.train_logits(), kernels.int8_logits(), contract=CONTRACT, slices=SLICES,
                             train_kernel="example-f32", inf_kernel="example-int8", name="int8")
    assert result["rows"] == kernels.SEQUENCES * kernels.ROWS


@pytest.mark.driftgate(limits={"tv": 0.05})
def test_int8_kernel_with_tensors(no_drift):
    torch = pytest.importorskip("torch")
    train, inf = (torch.from_numpy(x()) for x in (kernels.train_logits, kernels.int8_logits))
    no_drift(train, inf, slices=SLICES, name="tensors")
