"""What the tests use where it is installed."""
import unittest

try:
    import torch
except ImportError:
    torch = None

torch_test = unittest.skipIf(torch is None, "there is no torch")
