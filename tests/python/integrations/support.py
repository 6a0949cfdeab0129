"""What the tests of the integrations share: the package of this checkout, what Debian may lack, and stand-ins.

standins/ holds models of other projects' public interfaces, for projects that Debian does not have: they are what the
tests of the integrations run against, and say nothing of those projects beyond their documented interfaces.
"""
import contextlib
import importlib
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, os.environ.get("DRIFTGATE_PYTHON", str(ROOT / "python")))
sys.dont_write_bytecode = True

CONTRACT = """apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: rollouts}
kernels: {train: {ref: train}, inf: {ref: rollout}}
numerical:
  - {id: k3, metric: kl_inf_train_sampled, aggregate: sequence_mean, clip: 0.5, max: 0.05}
"""


def imported(name):
    """A module, or a skip that says why it is not there."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as fault:
        raise unittest.SkipTest(f"{name} cannot be imported: {fault}")


def numpy():
    return imported("numpy")


def torch():
    return imported("torch")


def driftgate():
    """The package with its library; a test that asks for it is skipped where either is missing."""
    module = imported("driftgate")
    if not hasattr(module, "drift"):
        raise unittest.SkipTest("driftgate has no drift here: its library is not built")
    return module


@contextlib.contextmanager
def standins():
    """The stand-ins in place of the projects that they stand for, for the length of a test."""
    path = str(HERE / "standins")
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in ("verl", "vllm")}
    sys.path.insert(0, path)
    finders = list(sys.meta_path)
    try:
        yield
    finally:
        sys.path.remove(path)
        sys.meta_path[:] = finders
        for name in [name for name in sys.modules if name.split(".")[0] in ("verl", "vllm")]:
            del sys.modules[name]
        sys.modules.update(before)


class Folder(unittest.TestCase):
    """A test with a folder of its own, `self.folder`."""

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)

    def contract(self, text=CONTRACT):
        path = self.folder / "contract.yaml"
        path.write_text(text)
        return str(path)


def rollouts(sequences, noise, seed=1):
    """(log-probabilities of the training kernel, of the rollouts, mask, token ids) with padding."""
    np = numpy()
    rng = np.random.default_rng(seed)
    width = 24
    lengths = rng.integers(4, width + 1, sequences)
    mask = (np.arange(width) < lengths[:, None]).astype(np.int64)
    train = -rng.exponential(1.0, (sequences, width)) - 5  # so far below 0 that no noise makes a probability over 1
    inf = train + rng.normal(0, noise, train.shape)
    return train.astype(np.float32), inf.astype(np.float32), mask, rng.integers(0, 1000, train.shape)
