#!/usr/bin/python3
"""Runs the tests of one file: run.py test_NAME. Ends with 77 where every test was skipped, and prints why."""
import sys
import unittest

import support  # noqa: F401  (puts the package of this checkout in sys.path)


def main():
    try:
        suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
    except unittest.SkipTest as reason:  # a whole file
        print(f"skipped: {reason}")
        return 77
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    reasons = sorted({reason for _, reason in result.skipped})
    for reason in reasons:
        print(f"skipped: {reason}")
    if not result.wasSuccessful():
        return 1
    if result.testsRun == len(result.skipped):
        return 77 if result.skipped else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
