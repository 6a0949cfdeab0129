"""The same figures in PyTorch on a CUDA device, eager and compiled, beside plain copying, as JSON.

Usage: torch_cuda.py [vocabulary] [f32|bf16] [rounds]. KL both ways, TV and JS of each row, in float32 as
RL frameworks compute them, by the best of several numbers of rows at a time. Compare with cuda_bench in the
same minute on the same device."""
import json
import statistics
import sys
import time

CHUNKS = (64, 256, 1024)
PAIR_BYTES = 4 << 30


def divergences(z, y):
    import torch
    log_p = torch.log_softmax(z.float(), -1)
    log_q = torch.log_softmax(y.float(), -1)
    p, q = log_p.exp(), log_q.exp()
    log_m = torch.logaddexp(log_p, log_q) - 0.6931471805599453
    kl_pq = (p * (log_p - log_q)).sum(-1)
    kl_qp = (q * (log_q - log_p)).sum(-1)
    tv = 0.5 * (p - q).abs().sum(-1)
    js = 0.5 * ((p * (log_p - log_m)).sum(-1) + (q * (log_q - log_m)).sum(-1))
    return kl_pq, kl_qp, tv, js


def kl_tv(z, y):
    import torch
    log_p = torch.log_softmax(z.float(), -1)
    log_q = torch.log_softmax(y.float(), -1)
    p = log_p.exp()
    return (p * (log_p - log_q)).sum(-1), 0.5 * (p - log_q.exp()).abs().sum(-1)


def timed(work):
    import torch
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def by_chunks(form, z, y, chunk):
    for first in range(0, z.shape[0], chunk):
        form(z[first:first + chunk], y[first:first + chunk])


def main():
    import torch
    if not torch.cuda.is_available():
        sys.exit("torch_cuda.py: PyTorch sees no CUDA device")
    vocabulary = int(sys.argv[1]) if len(sys.argv) > 1 else 131072
    dtype = torch.float32 if len(sys.argv) > 2 and sys.argv[2] == "f32" else torch.bfloat16
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    rows = PAIR_BYTES // 2 // (vocabulary * dtype.itemsize)
    torch.manual_seed(1)
    z = torch.empty(rows, vocabulary, dtype=dtype, device="cuda")
    y = torch.empty_like(z)
    for first in range(0, rows, 256):
        part = 3 * torch.randn(min(256, rows - first), vocabulary, device="cuda")
        z[first:first + 256] = part.to(dtype)
        y[first:first + 256] = (part + 0.01 * torch.randn_like(part)).to(dtype)
    copy = torch.empty_like(z)
    forms = {"eager kl tv js": divergences, "eager kl tv": kl_tv,
             "compiled kl tv js": torch.compile(divergences), "compiled kl tv": torch.compile(kl_tv)}
    speeds = {(name, chunk): [] for name in forms for chunk in CHUNKS}
    bandwidth = []
    for round_number in range(rounds + 1):  # the first compiles and makes buffers
        seconds = timed(lambda: copy.copy_(z))
        if round_number:
            bandwidth.append(2 * z.numel() * z.element_size() / seconds / 1e9)
        for (name, chunk), values in speeds.items():
            seconds = timed(lambda: by_chunks(forms[name], z, y, chunk))
            if round_number:
                values.append(rows / seconds)
    best = {}
    for (name, chunk), values in speeds.items():
        median = statistics.median(values)
        if name not in best or median > best[name]["rows_per_s"]:
            best[name] = {"rows_per_s": median, "min": min(values), "max": max(values), "rows_at_a_time": chunk}
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "vocabulary": vocabulary,
                      "dtype": str(dtype), "rows": rows, "rounds": rounds,
                      "device_copy_gb_per_s": statistics.median(bandwidth), "best": best}, indent=1))


if __name__ == "__main__":
    main()
