"""What Python costs over the C library, and rows of torch tensors against the command line on the same bytes.
Usage: DRIFTGATE_LIBRARY=… python_bench.py DRIFTGATE [--rounds N] [--rows N] [--columns N] [--threads N]

Prints a line of JSON for each round and the medians with minimum and maximum. Rounds interleave the sides.

- overhead: microseconds of processor time of a call of driftgate.drift on 4 rows of 64 columns, less those of the C calls that it makes
  (two captures of rows, a measurement, closing all), from C compiled here, with one thread; and what to_json adds.
- rate: rows per second of driftgate.drift on torch tensors with to_json over those of `driftgate drift --json` on captures
  of the same bytes in the page cache, by wall clock, the whole process.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))

C = """
#include "driftgate.h"
#include <time.h>
/* Seconds of `calls` calls, as driftgate.drift makes them. */
double loop(int calls, const void* train, const void* inf, uint64_t rows, uint32_t columns, const int64_t* tokens) {
  struct timespec begin, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  for (int i = 0; i < calls; ++i) {
    dg_rows sides[2];
    dg_capture* captures[2] = {NULL, NULL};
    dg_identity identity;
    dg_inputs inputs;
    dg_options options;
    dg_result* result = NULL;
    memset(&identity, 0, sizeof identity);
    memset(&inputs, 0, sizeof inputs);
    memset(&options, 0, sizeof options);
    identity.struct_size = sizeof identity;
    for (int side = 0; side < 2; ++side) {
      memset(&sides[side], 0, sizeof sides[side]);
      sides[side].struct_size = sizeof sides[side];
      sides[side].rows = rows;
      sides[side].tokens = tokens;
      sides[side].logits.data = side == 0 ? train : inf;
      sides[side].logits.dtype = DG_F32;
      sides[side].logits.columns = columns;
      identity.kernel = dg_text_of(side == 0 ? "train" : "inf");
      if (dg_capture_from_rows(&sides[side], &identity, dg_text_of(NULL), &captures[side], NULL) != DG_OK) return -1;
    }
    inputs.struct_size = sizeof inputs;
    inputs.train = captures[0];
    inputs.inf = captures[1];
    options.struct_size = sizeof options;
    options.threads = 1;
    options.keep_rows = 1;
    if (dg_measure(&inputs, &options, &result, NULL) != DG_OK) return -1;
    dg_result_close(result);
    dg_capture_close(captures[1]);
    dg_capture_close(captures[0]);
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}
"""


def compiled(folder, library):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    source, made = os.path.join(folder, "loop.c"), os.path.join(folder, "loop.so")
    with open(source, "w", encoding="utf-8") as handle:
        handle.write(C)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", os.path.join(root, "daemon", "library"), "-o", made, source,
                    library], check=True)
    loop = ctypes.CDLL(made).loop
    loop.restype = ctypes.c_double
    loop.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p]
    return loop


def overhead(folder, rounds, calls=2000):
    """Microseconds of one call: C, Python, Python with JSON."""
    import torch

    import driftgate
    from driftgate import _abi

    loop = compiled(folder, _abi.lib._name)
    train = torch.randn(4, 64)
    inf, tokens = train + 0.01 * torch.randn(4, 64), torch.arange(4)

    def python(finish):
        begin = time.process_time()
        for _ in range(calls):
            drift = driftgate.drift(train, inf, tokens, threads=1)
            if finish:
                drift.to_json()
        return time.process_time() - begin

    for number in range(rounds + 1):  # the first is not counted
        seconds = {"c": loop(calls, train.data_ptr(), inf.data_ptr(), 4, 64, tokens.data_ptr()),
                   "python": python(False), "python_json": python(True)}
        if seconds["c"] < 0:
            raise SystemExit("a call from C failed")
        if number:
            yield {"what": "overhead", **{f"{name}_us": 1e6 * value / calls for name, value in seconds.items()},
                   "overhead_us": 1e6 * (seconds["python"] - seconds["c"]) / calls}


def write(path, tensor, dtype, kernel):
    rows, columns = tensor.shape
    import torch

    data = tensor.view(torch.int16) if dtype == "BF16" else tensor
    size = data.numel() * data.element_size()
    header = {"__metadata__": {"capture.version": "1", "temperature": "1", "kernel": kernel},
              "logits": {"dtype": dtype, "shape": [rows, columns], "data_offsets": [0, size]},
              "sequence_ids": {"dtype": "I64", "shape": [rows], "data_offsets": [size, size + 8 * rows]},
              "token_ids": {"dtype": "I64", "shape": [rows], "data_offsets": [size + 8 * rows, size + 16 * rows]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as handle:
        handle.write(len(text).to_bytes(8, "little") + text)
        handle.write(memoryview(data.numpy()).cast("B"))
        handle.write(b"".join((i // 10).to_bytes(8, "little") for i in range(rows)))
        handle.write(b"".join((i % columns).to_bytes(8, "little") for i in range(rows)))


def rate(folder, program, rounds, rows, columns, threads):
    """Rows per second of the command line and of Python, for each type."""
    import torch

    import driftgate

    tokens, sequences = torch.arange(rows) % columns, torch.arange(rows) // 10
    for name, dtype in (("F32", torch.float32), ("BF16", torch.bfloat16)):
        torch.manual_seed(1)
        train = torch.randn(rows, columns)
        inf = torch.empty_like(train)
        for row in range(rows):
            inf[row] = train[row] + 0.01 * torch.randn(columns)
        train, inf = train.to(dtype), inf.to(dtype)
        paths = [os.path.join(folder, f"{side}.safetensors") for side in ("train", "inf")]
        for path, tensor, side in zip(paths, (train, inf), ("train", "inf")):
            write(path, tensor, name, side)
        command = [program, "drift", *paths, "--json", "-", "--threads", str(threads)]
        for number in range(rounds + 1):
            begin = time.perf_counter()
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            between = time.perf_counter()
            drift = driftgate.drift(train, inf, tokens, sequences, threads=threads).to_json()
            end = time.perf_counter()
            if drift != said:
                raise SystemExit("Python and the command line differ")
            if number:
                yield {"what": f"rate {name}", "cli_rows_s": rows / (between - begin),
                       "python_rows_s": rows / (end - between), "ratio": (between - begin) / (end - between)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driftgate")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=131_072)
    parser.add_argument("--overhead-only", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        sides = [overhead(folder, args.rounds)]
        if not args.overhead_only:
            sides.append(rate(folder, args.driftgate, args.rounds, args.rows, args.columns, args.threads))
        for found in sides:
            for line in found:
                print(json.dumps(line), flush=True)
                for name, value in line.items():
                    if name != "what":
                        figures.setdefault(f"{line['what']}: {name}", []).append(value)
    for name, values in figures.items():
        print(f"{name}: {statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})")


if __name__ == "__main__":
    main()
