"""The example of docs/library.md, as it stands there, is compiled as C99 and run on the captures of the tests.

    example.py COMPILER LIBRARY INCLUDE ROOT
"""
import os
import re
import subprocess
import sys
import tempfile

compiler, library, include, root = sys.argv[1:]
with open(os.path.join(root, "docs", "library.md"), encoding="utf-8") as handle:
    programs = [block for block in re.findall(r"```c\n(.*?)```", handle.read(), re.S) if "int main(" in block]
assert len(programs) == 1, f"{len(programs)} programs in docs/library.md"
vectors = os.path.join(root, "tests", "vectors")
with tempfile.TemporaryDirectory() as folder:
    source, program = os.path.join(folder, "example.c"), os.path.join(folder, "example")
    with open(source, "w", encoding="utf-8") as handle:
        handle.write(programs[0])
    subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{include}", source, "-o", program,
                    library, f"-Wl,-rpath,{os.path.dirname(library)}"], check=True)
    done = subprocess.run([program, os.path.join(vectors, "tiny_f32.safetensors"),
                           os.path.join(vectors, "tiny_bf16.safetensors"), os.path.join(vectors, "tiny_corpus.jsonl")],
                          capture_output=True, text=True, timeout=300)
print(done.stdout + done.stderr)
assert done.returncode == 0, done.returncode
assert "2816 rows, exit code 0" in done.stdout and "batches agree: yes" in done.stdout, "the output is another one"
