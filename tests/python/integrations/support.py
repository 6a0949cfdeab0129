"""What the tests of the integrations share: the package of this checkout, and what Debian may lack."""
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, os.environ.get("DRIFTGATE_PYTHON", str(ROOT / "python")))


def numpy():
    try:
        import numpy as np
    except ImportError as fault:
        raise unittest.SkipTest(f"numpy cannot be imported: {fault}")
    return np


def torch():
    try:
        import torch as module
    except ImportError as fault:
        raise unittest.SkipTest(f"torch cannot be imported: {fault}")
    return module
