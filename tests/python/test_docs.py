"""The examples of docs/python.md, as they stand there."""
import doctest
import os
import unittest

PAGE = os.path.join(os.environ["DRIFTGATE_ROOT"], "docs", "python.md")


class Docs(unittest.TestCase):
    def test_examples_give_what_they_show(self):
        done = doctest.testfile(PAGE, module_relative=False)
        self.assertGreater(done.attempted, 25)
        self.assertEqual(done.failed, 0)


if __name__ == "__main__":
    unittest.main()
