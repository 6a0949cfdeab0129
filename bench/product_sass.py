"""Counts machine instructions of the kernel that multiplies hidden states and a head, without a disassembler: of the
innermost loop with integer products (one round has 48 of them, or the 16 of the fourth order), and of the loop over chunks
around it, which takes two rounds.

Usage: nvcc -std=c++17 -O3 -I. -arch=sm_90 -cubin -o hidden.cubin gpu/cuda/hidden_kernels.cu
       product_sass.py hidden.cubin [part of the kernel's name]

As in sass_count.py opcodes were found by compiling small kernels (sm_80, sm_90)."""
import collections
import struct

from sass_count import kernels, target_of

IMMA, BRANCH = 0x237, 0x947
NAMES = {IMMA: "IMMA", BRANCH: "BRA", 0x984: "LDS", 0xFAE: "LDGSTS", 0x981: "LDG", 0x983: "LDL", 0x387: "STL",
         0xB1D: "BAR", 0x202: "MOV"}


def targets_of(at, low, high):
    """The offset lies elsewhere on sm_80 than on sm_90."""
    offset = (low >> 32) | ((high & 0x3FFFF) << 32)
    if offset >= 1 << 49:
        offset -= 1 << 50
    return at + 1 + offset // 16, target_of(at, low, high)


def main():
    for name, code in kernels(__doc__, "sweep_kernel"):
        instructions = [struct.unpack_from("<QQ", code, i) for i in range(0, len(code) // 16 * 16, 16)]
        opcodes = [low & 0xFFF for low, _ in instructions]
        print(f"{name}: {len(opcodes)} instructions, {opcodes.count(0x983)} LDL, {opcodes.count(0x387)} STL")
        loops = set()
        for at, (low, high) in enumerate(instructions):
            for first in targets_of(at, low, high) if opcodes[at] == BRANCH else ():
                if 0 <= first < at < first + 600 and IMMA in opcodes[first:at]:
                    loops.add((first, at))
        for first, last in sorted(loops, key=lambda loop: loop[1] - loop[0])[:2]:
            counts = collections.Counter(NAMES.get(opcode, "other") for opcode in opcodes[first:last + 1])
            text = ", ".join(f"{key} {value}" for key, value in counts.most_common())
            print(f"  {first} to {last}: {last - first + 1}: {text}")


if __name__ == "__main__":
    main()
