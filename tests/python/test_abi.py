"""The structs and functions in ctypes are those of driftgate.h."""
import ast
import ctypes
import os
import re
import subprocess
import tempfile
import unittest

from driftgate import _abi

HEADER = os.path.join(os.environ["DRIFTGATE_ROOT"], "daemon", "library", "driftgate.h")
STRUCTS = {"dg_text": _abi.Text, "dg_identity": _abi.Identity, "dg_matrix": _abi.Matrix, "dg_rows": _abi.Rows,
           "dg_open_options": _abi.OpenOptions, "dg_capture_info": _abi.CaptureInfo,
           "dg_head_options": _abi.HeadOptions, "dg_options": _abi.Options, "dg_inputs": _abi.Inputs,
           "dg_accumulator_options": _abi.AccumulatorOptions, "dg_writer_options": _abi.WriterOptions}


def header():
    with open(HEADER, encoding="utf-8") as handle:
        return handle.read()


class Interface(unittest.TestCase):
    def test_structs_are_laid_out_as_in_c(self):
        lines = []
        for name, struct in STRUCTS.items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            lines += [f'printf("{name}.{field[0]} %zu\\n", offsetof({name}, {field[0]}));' for field in struct._fields_]
        program = f'#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{ {" ".join(lines)} return 0; }}\n'
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sizes.c"), "w", encoding="utf-8") as handle:
                handle.write(program)
            subprocess.run(["cc", "-o", "sizes", "sizes.c"], cwd=folder, check=True)
            said = subprocess.run([os.path.join(folder, "sizes")], check=True, capture_output=True, text=True).stdout
        c = dict(line.split() for line in said.splitlines())
        for name, struct in STRUCTS.items():
            self.assertEqual(int(c[name]), ctypes.sizeof(struct), name)
            for field in struct._fields_:
                self.assertEqual(int(c[f"{name}.{field[0]}"]), getattr(struct, field[0]).offset, f"{name}.{field[0]}")

    def test_every_struct_and_function_is_declared(self):
        text = re.sub(r"/\*.*?\*/", "", header(), flags=re.S)
        self.assertEqual(set(re.findall(r"^typedef struct (dg_\w+) \{", text, re.M)) - {"dg_error"}, set(STRUCTS))
        for name, struct in STRUCTS.items():
            body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (name, name), text, re.S).group(1)
            members = re.findall(r"(\w+)(?:\[\w+\])?;", body)
            self.assertEqual(members, [field[0] for field in struct._fields_], name)
        declared = {name: (result, arguments) for name, result, arguments in _abi._FUNCTIONS}
        found = {}
        for result, name, arguments in re.findall(r"^DG_API ([\w* ]+?[ *])(dg_\w+)\((.*?)\);", text, re.M | re.S):
            found[name] = 0 if arguments.strip() == "void" else arguments.count(",") + 1
        self.assertEqual(set(found), set(declared))
        for name, count in found.items():
            self.assertEqual(count, len(declared[name][1]), name)

    def test_numbers_are_those_of_the_header(self):
        text = header()
        def number(name):
            return int(re.search(r"\b%s(?: =)? (\w+?)u?\b" % name, text).group(1), 0)
        for name, value in (("DG_ABI_VERSION", _abi.ABI_VERSION), ("DG_F32", _abi.F32), ("DG_F16", _abi.F16),
                            ("DG_BF16", _abi.BF16), ("DG_I32", _abi.I32), ("DG_I64", _abi.I64),
                            ("DG_MEMORY_CUDA", _abi.MEMORY_CUDA), ("DG_COLUMN_POSITIONS", _abi.COLUMN_POSITIONS),
                            ("DG_FORMAT_JSON", _abi.JSON), ("DG_FORMAT_MARKDOWN", _abi.MARKDOWN),
                            ("DG_FORMAT_HTML", _abi.HTML), ("DG_FORMAT_JUNIT", _abi.JUNIT),
                            ("DG_CANCELLED", _abi.CANCELLED), ("DG_NO_TOP_ROWS", _abi.NO_TOP_ROWS)):
            self.assertEqual(number(name), value, name)
        for index, name in enumerate(_abi.VERDICTS):
            self.assertEqual(number(f"DG_VERDICT_{(name or 'none').upper()}"), index)
        for index, name in enumerate(_abi.MODES):
            self.assertEqual(number(f"DG_MODE_{name.upper()}"), index)

    def test_the_package_is_python_3_9(self):
        package = os.path.join(os.environ["DRIFTGATE_ROOT"], "python", "driftgate")
        names = [os.path.join(folder, name) for folder, _, files in os.walk(package) for name in files
                 if name.endswith(".py")]
        self.assertGreater(len(names), 8)
        for name in names:
            with open(name, encoding="utf-8") as handle:
                ast.parse(handle.read(), name, feature_version=(3, 9))

    def test_metric_names_are_those_of_contracts(self):
        import driftgate
        names = driftgate.metric_names()
        self.assertEqual((len(names), names[0], names[-1]), (18, "logit_max_abs", "nonfinite"))


if __name__ == "__main__":
    unittest.main()
