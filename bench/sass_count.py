"""Counts machine instructions of the CUDA row kernels without a disassembler: for each loop that forms
exponentials, how many instructions it has for each of them, which is for each pair of logits, and for the
loop that reads a row, which takes four minima and maxima of a pair.

Usage: nvcc -std=c++17 -O3 -I. -arch=sm_90 -cubin -o kernels.cubin gpu/cuda/kernels.cu
       sass_count.py kernels.cubin [part of the kernel's name]

Instructions are 16 bytes, the opcode in the low 12 bits. The numbers below were found by compiling small
kernels (sm_80, sm_90). The columns of the vector that holds the row's largest logit are summed by code of
their own that the same loop contains, so a loop's figure is a mean over both."""
import collections
import struct
import sys

MUFU, BRANCH = 0x308, 0x947
NAMES = {MUFU: "MUFU", BRANCH: "BRA", 0x984: "LDS", 0x981: "LDG", 0x388: "STS", 0x988: "STS",
         0x983: "LDL", 0x387: "STL", 0x589: "SHFL", 0xF89: "SHFL"}
FLOAT = {0x20: "FMUL", 0x21: "FADD", 0x23: "FFMA", 0x08: "FSEL", 0x09: "FMNMX", 0x0B: "FSETP"}


def sections(data):
    start = struct.unpack_from("<Q", data, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    table = [struct.unpack_from("<II", data, start + i * size)[:1] +
             struct.unpack_from("<QQ", data, start + i * size + 0x18) for i in range(count)]
    base = table[names][1]
    for name, offset, length in table:
        end = data.index(b"\0", base + name)
        yield data[base + name:end].decode(), data[offset:offset + length]


def name_of(opcode):
    if opcode in NAMES:
        return NAMES[opcode]
    return FLOAT.get(opcode & 0xFF, "other") if 0x200 <= opcode & 0xF00 else "other"


def target_of(at, low, high):
    offset = (low >> 34) | ((high & 0x3FFFF) << 30)
    if offset >= 1 << 47:
        offset -= 1 << 48
    return at + 1 + ((offset << 8) | ((low >> 16) & 0xFF)) // 4


def loops(code):
    instructions = [struct.unpack_from("<QQ", code, i) for i in range(0, len(code) // 16 * 16, 16)]
    found = []
    for at, (low, high) in enumerate(instructions):
        if low & 0xFFF == BRANCH:
            first = target_of(at, low, high)
            if 0 <= first < at - 1:
                found.append((first, at))
    for first, last in found:
        body = [low & 0xFFF for low, _ in instructions[first:last + 1]]
        inner = any(first <= a and b <= last and (a, b) != (first, last) and b - a > 8 for a, b in found)
        yield first, last, body, inner


def kernels(usage, default):
    """Name and code of the kernels that the command line asks for."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    wanted = sys.argv[2] if len(sys.argv) > 2 else default
    with open(sys.argv[1], "rb") as handle:
        data = handle.read()
    for name, code in sections(data):
        if name.startswith(".text.") and wanted in name:
            yield name, code


def main():
    for name, code in kernels(__doc__, "fast_kernel"):
        print(f"{name}: {len(code) // 16} instructions")
        for first, last, body, inner in loops(code):
            counts = collections.Counter(map(name_of, body))
            pairs = counts["MUFU"]
            reads = pairs == 0 and counts["LDG"] == 8 and counts["STS"] == 8
            if reads:
                pairs = counts["FMNMX"] // 4
            if pairs == 0 or len(body) > 2000 or not (reads or counts["MUFU"]):
                continue
            each = ", ".join(f"{key} {value / pairs:.1f}" for key, value in counts.most_common(9))
            print(f"  at {first}: {len(body) / pairs:.1f} for each of {pairs} {'pairs read' if reads else 'exponentials'}"
                  f"{' (with an inner loop)' if inner else ''}: {each}")


if __name__ == "__main__":
    main()
