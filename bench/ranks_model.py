#!/usr/bin/env python3
"""Cost of sharing rows or columns over GPUs, on paper: the tables of docs/ranks.md. Nothing is measured here.

A row pair is read once at the bandwidth of a device. Messages cost alpha + bytes / beta, alpha of an all-gather over a
ring as NCCL's own tuning model has it (src/graph/tuning.cc, ring, protocol Simple). The merge of the parts of a row runs
on one thread of each host."""
DEVICE = 3.0e12  # bytes/s that a device reads (docs/ranks.md)
VOCABULARY, BYTES = 131_072, 2  # bf16
ROWS, SEQUENCE = 100e6, 1_000  # of the whole job, rows of a sequence
PASS_1, PASS_2, TABLE = 688, 240, 1_300  # bytes: of a row and rank, of a row and rank, of a sequence
NODE = 8  # devices of a node
BASE, HOP, NET_HOP = 8.4e-6, 3.4e-6, 9.6e-6  # s: of a call, of a step over NVLink, of a step between nodes
NVLINK, NET = 450e9, 50e9  # bytes/s in one direction, of a device and of its network card
PART = 1.0e-6  # s of one host thread for each part of a row that it merges
BATCH_BYTES, MESSAGE_BYTES, MOST_ROWS = 512 << 20, 16 << 20, 8_192  # gpu/ranks/vocabulary_split.cpp
MESSAGE = 1e-6  # s of a thread for each message of a round of progress
PCIE = 55e9  # bytes/s over which a device is fed from the host's memory
ROW = 2 * VOCABULARY * BYTES / DEVICE


def gathering(ranks, bytes_of_rank):
    nodes = max(1, ranks // NODE)
    return BASE + (ranks - nodes) * HOP + (nodes - 1) * NET_HOP + (ranks - 1) * bytes_of_rank / (NVLINK if nodes == 1 else NET)


def rows_shared(ranks):
    """Seconds of compute, of tables, and of the thread that exchanges progress beside the compute."""
    tables = ROWS / SEQUENCE * TABLE / (NVLINK if ranks <= NODE else NET)
    batches = ROWS / ranks / 64  # 64 MiB of a row pair in float32
    rounds = min(batches, max(256, min(4_096, 32_768 // ranks)))  # gpu/ranks/rank_progress.hpp
    return ROWS * ROW / ranks, tables, rounds * (ranks - 1) * MESSAGE


def columns_shared(ranks):
    """Rows of a batch, and its seconds of compute, of exchange and of merge."""
    batch = min(BATCH_BYTES // (8 * VOCABULARY // ranks), MESSAGE_BYTES // (ranks * PASS_1), MOST_ROWS)
    exchange = gathering(ranks, PASS_1 * batch) + gathering(ranks, PASS_2 * batch)
    return batch, batch * ROW / ranks, exchange, batch * ranks * PART


print("| GPUs | from device memory | fed over PCIe | tables to rank 0 | progress, beside it | share of ideal · fed over PCIe |"
      "\n| --- | --- | --- | --- | --- | --- |")
for ranks in (8, 16, 64, 128, 256, 512):
    compute, tables, progress = rows_shared(ranks)
    fed = compute * DEVICE / PCIE
    shares = [wanted / (max(wanted, progress) + tables) for wanted in (compute, fed)]
    print(f"| {ranks} | {compute:.3g} s | {fed:.3g} s | {1e3 * tables:.2g} ms | {1e3 * progress:.2g} ms | "
          f"{shares[0]:.2f} · {shares[1]:.2f} |")
print("\n| GPUs | rows of a batch | compute | exchange | merge | rows/s | of one GPU | of one GPU, if devices merged |"
      "\n| --- | --- | --- | --- | --- | --- | --- | --- |")
for ranks in (2, 4, 8, 16, 64, 128, 256, 512):
    batch, compute, exchange, merge = columns_shared(ranks)
    rate, without = batch / max(compute, exchange, merge), batch / max(compute, exchange)
    print(f"| {ranks} | {batch} | {1e6 * compute:.3g} µs | {1e6 * exchange:.3g} µs | {1e6 * merge:.3g} µs | {rate:.2g} | "
          f"{rate * ROW:.2g} | {without * ROW:.2g} |")
