"""`driftgate drift --report`: the files parsed by readers of XML and HTML, with names that try to be markup."""
import html.parser
import json
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import numpy

import captures

ROWS, COLUMNS, SEQUENCES = 240, 60, 60
HOSTILE = "<script>alert(1)</script>\"'&`|]]>\u202eed\u2066\u0007"
CONTRACT = """apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: reports}
kernels: {train: {ref: train}, inf: {ref: inf}}
slices: {dimensions: [language], min_sequences: 10}
numerical:
  - {id: finite, metric: nonfinite, aggregate: sum, max: 0}
  - {id: tv, metric: tv, aggregate: sequence_mean, clip: 0.5, max: LIMIT}
  - {id: soft-top1, metric: top1_flip, aggregate: sequence_mean, max: 0.0001, severity: soft}
runtime:
  - {id: errors, metric: error_rate, max: 0.02}
stages:
  canary: {steps: [{share: 0.1}, {share: 1.0}], soak: 1s, bake: 1s, min_keys: 20, max_duration: 1h}
"""
# What readers of JUnit XML know (the schema of Jenkins' xUnit plugin): elements, their attributes and their children.
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
    "properties": set(), "property": {"name", "value"}, "testcase": {"name", "classname", "time"},
    "failure": {"type", "message"}, "error": {"type", "message"}, "skipped": {"type", "message"},
    "system-out": set(), "system-err": set()}
NEEDED = {"testsuite": {"name", "tests", "failures", "errors"}, "property": {"name", "value"}, "testcase": {"name"}}
CHILDREN = {"testsuites": {"testsuite"}, "testsuite": {"properties", "testcase", "system-out", "system-err"},
            "properties": {"property"}, "testcase": {"failure", "error", "skipped", "system-out", "system-err"}}
VOID = {"meta", "br", "wbr"}


class Page(html.parser.HTMLParser):
    """Elements of a page, with a fault for each that is not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.faults, self.words = [], [], [], []
        self.feed(text)
        self.close()
        self.faults += [f"{name} is not closed" for name in self.open]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        self.words.append(data)

    def all(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]


class Reports(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = made.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def measure(self, limit, language="de", kernel="inf", factor=1.0, reports=("junit", "markdown", "html")):
        """Writes captures and reports; the first of four sequences is of `language`, with logits times `factor`."""
        train, inf = captures.logits(ROWS, COLUMNS)
        sequences = numpy.repeat(numpy.arange(SEQUENCES), ROWS // SEQUENCES)
        inf[sequences % 4 == 0] *= numpy.float32(factor)
        sides = []
        for name, data in (("train", train), (kernel, inf)):
            tensors = {"logits": ("F32", data.shape, data.tobytes()), "sequence_ids": captures.ids(sequences)}
            sides.append(captures.write(self.path(f"{len(sides)}.safetensors"), tensors, kernel=name))
        with open(self.path("corpus.jsonl"), "w", encoding="utf-8") as file:
            for i in range(SEQUENCES):
                file.write(json.dumps({"sequence": i, "id": f"doc-{i}",
                                       "slices": {"language": language if i % 4 == 0 else "en"}}) + "\n")
        with open(self.path("contract.yaml"), "w", encoding="utf-8") as file:
            file.write(CONTRACT.replace("LIMIT", str(limit)))
        words = [part for form in reports for part in ("--report", f"{form}={self.path(form)}")]
        ran = subprocess.run([captures.DRIFTGATE, "drift", *sides, "--corpus", self.path("corpus.jsonl"), "--contract",
                              self.path("contract.yaml"), *words], capture_output=True, text=True, timeout=100)
        return ran

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def check_junit(self, root):
        for element in root.iter():
            self.assertIn(element.tag, ATTRIBUTES)
            self.assertLessEqual(set(element.attrib), ATTRIBUTES[element.tag], element.tag)
            self.assertLessEqual(NEEDED.get(element.tag, set()), set(element.attrib), element.tag)
            self.assertLessEqual({child.tag for child in element}, CHILDREN.get(element.tag, set()), element.tag)
        for suite in root:
            for total, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
                self.assertEqual(int(suite.get(total)), len(list(suite.iter(tag))), total)

    def test_a_contract_that_is_kept(self):
        ran = self.measure(0.3)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        root = ElementTree.fromstring(self.text("junit"))
        self.check_junit(root)
        self.assertEqual((root.get("failures"), root.get("errors")), ("0", "0"))
        cases = {case.get("name"): case for case in root.iter("testcase")}
        self.assertEqual(set(cases), {"numerical.finite", "numerical.tv", "numerical.soft-top1", "runtime.errors",
                                      "measurement", "warnings"})
        self.assertIsNotNone(cases["runtime.errors"].find("skipped"))
        self.assertIsNone(cases["numerical.tv"].find("failure"))
        self.assertIn("## driftgate: PASS", self.text("markdown"))
        self.assertIn("PASS", Page(self.text("html")).words)

    def test_a_fault_in_one_slice_is_named_in_every_form(self):
        ran = self.measure(0.02, factor=1.6)
        self.assertEqual(ran.returncode, 1, ran.stderr)
        root = ElementTree.fromstring(self.text("junit"))
        self.check_junit(root)
        failure = root.find(".//testcase[@name='numerical.tv']/failure")
        for words in ("numerical.tv VIOLATED", "Worst slice: language=de", "Worst rows: row ", "doc-",
                      "Pattern: scaled_logits"):
            self.assertIn(words, failure.get("message"))
            self.assertIn(words.split(" ", 1)[1] if words.startswith("numerical") else words, failure.text)
        markdown = self.text("markdown")
        self.assertTrue(markdown.splitlines()[1].startswith("## driftgate: VIOLATED"))
        self.assertIn("Worst slice: language=de", markdown)
        self.assertIn("scaled\\_logits", markdown)
        page = Page(self.text("html"))
        words = " ".join(page.words)
        self.assertEqual(page.faults, [])
        self.assertIn("scaled_logits (language=de", words)
        self.assertRegex(words, r"row \d+ \(sequence \d+, doc-")

    def test_names_are_no_markup(self):
        ran = self.measure(0.02, language=HOSTILE, kernel=HOSTILE, factor=1.6)
        self.assertEqual(ran.returncode, 1, ran.stderr)
        root = ElementTree.fromstring(self.text("junit"))
        self.check_junit(root)
        shown = "<script>alert(1)</script>\"'&`|]]>⟨U+202E⟩ed⟨U+2066⟩⟨U+0007⟩"
        self.assertIn(shown, root.find(".//failure").get("message"))
        page = Page(self.text("html"))
        self.assertEqual(page.faults, [])
        self.assertIn(shown, page.words)
        for name in ("junit", "markdown", "html"):
            self.assertNotRegex(self.text(name), "[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")

    def test_the_page_needs_nothing_else_and_says_what_its_pictures_are(self):
        self.measure(0.02, factor=1.6)
        page = Page(self.text("html"))
        self.assertEqual(page.faults, [])
        policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
        self.assertRegex(policy, r"^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; ")
        tags = {tag for tag, _ in page.elements}
        self.assertFalse(tags & {"script", "link", "img", "iframe", "object", "image", "use", "a", "form"}, tags)
        for tag, attributes in page.elements:
            self.assertFalse(set(attributes) & {"style", "src", "href", "xlink:href"}, tag)
            self.assertFalse([name for name in attributes if name.startswith("on")], tag)
        ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
        for picture in page.all("svg"):
            named = picture.get("aria-labelledby", "").split()
            self.assertTrue(picture.get("aria-hidden") == "true" or (named and set(named) <= ids))
        for region in page.all("div"):
            if region.get("role") == "region":
                self.assertTrue(region["aria-label"])
        self.assertEqual(len(page.all("title")), 1 + len([s for s in page.all("svg") if "role" in s]) +
                         len([r for r in page.all("rect") if r.get("class") == "bar"]))

    def test_the_same_captures_give_the_same_bytes(self):
        self.measure(0.02, factor=1.6)
        first = [self.text(name) for name in ("junit", "markdown", "html")]
        self.measure(0.02, factor=1.6)
        self.assertEqual(first, [self.text(name) for name in ("junit", "markdown", "html")])

    def test_what_cannot_be_written_is_refused_before_anything_is_measured(self):
        for report, code, words in (("pdf=x", 64, "expected junit=FILE, markdown=FILE or html=FILE"),
                                    ("junit", 64, "expected junit=FILE"), ("html=-", 64, "not to standard output"),
                                    (f"html={self.folder}/none/x", 74, "no such folder"),
                                    (f"junit={self.folder}", 74, "it is a folder")):
            ran = subprocess.run([captures.DRIFTGATE, "drift", "absent", "absent", "--report", report],
                                 capture_output=True, text=True, timeout=100)
            self.assertEqual(ran.returncode, code, report)
            self.assertIn(words, ran.stderr)
        twice = self.path("twice")
        ran = subprocess.run([captures.DRIFTGATE, "drift", "absent", "absent", "--report", f"html={twice}", "--report",
                              f"junit={twice}"], capture_output=True, text=True, timeout=100)
        self.assertEqual(ran.returncode, 64)
        self.assertIn("name the same file", ran.stderr)


if __name__ == "__main__":
    unittest.main()
