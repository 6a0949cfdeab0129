// Compiled once for each instruction set with TINYLM_ISA_NAME set. Nothing of the standard library is
// included beyond plain declarations: an inline function compiled here with wide instructions could be
// the copy that the linker keeps for all translation units.
#include "examples/tinylm/src/kernels.hpp"

namespace tinylm::TINYLM_ISA_NAME {
extern const Kernels kTable;
}

namespace {

using std::size_t;
using tinylm::Attention;
using tinylm::kPanel;

#if defined(__AVX512F__)
constexpr size_t kLanes = 16, kTileRows = 4, kTilePanels = 2;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8, kTileRows = 4, kTilePanels = 1;
#else
constexpr size_t kLanes = 4, kTileRows = 2, kTilePanels = 1;
#endif
constexpr size_t kParts = kPanel / kLanes;
typedef float Native __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef int NativeInt __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

// Sixteen floats in registers of the machine's own width (the compiler lowers wider vector types to memory).
// Every instruction set has the same sixteen lanes, so sums have the same order on each.
struct Vec {
  Native part[kParts];
};

template <typename Op>
inline __attribute__((always_inline)) Vec each(Op op) {
  Vec out;
  for (size_t i = 0; i < kParts; ++i) out.part[i] = op(i);
  return out;
}

inline Vec operator+(const Vec& a, const Vec& b) {
  return each([&](size_t i) { return a.part[i] + b.part[i]; });
}
inline Vec operator-(const Vec& a, const Vec& b) {
  return each([&](size_t i) { return a.part[i] - b.part[i]; });
}
inline Vec operator*(const Vec& a, const Vec& b) {
  return each([&](size_t i) { return a.part[i] * b.part[i]; });
}
inline Vec operator/(const Vec& a, const Vec& b) {
  return each([&](size_t i) { return a.part[i] / b.part[i]; });
}
inline Vec same(float x) {
  return each([&](size_t) { return Native{} + x; });
}
inline Vec clamp(const Vec& x, float low, float high) {
  const Vec lows = same(low), highs = same(high);
  return each([&](size_t i) {
    const Native raised = x.part[i] < lows.part[i] ? lows.part[i] : x.part[i];
    return raised > highs.part[i] ? highs.part[i] : raised;
  });
}
inline Vec load(const float* p) {
  return each([&](size_t i) { return *reinterpret_cast<const Native*>(p + i * kLanes); });
}
inline void store(float* p, const Vec& v) {
  for (size_t i = 0; i < kParts; ++i) *reinterpret_cast<Native*>(p + i * kLanes) = v.part[i];
}

inline float sum(const Vec& v) {
  float lanes[kPanel];
  store(lanes, v);
  float total = 0;
  for (size_t lane = 0; lane < kPanel / 2; ++lane) total += lanes[lane] + lanes[lane + kPanel / 2];
  return total;
}

// Rows * panels accumulators, which stay in registers for a whole block of the inner dimension.
template <size_t Rows, size_t Panels>
inline void tile(const float* x, const float* packed, float* y, size_t in, size_t out, size_t block) {
  Vec total[Rows][Panels] = {};
  for (size_t begin = 0; begin < in; begin += block) {
    const size_t end = begin + block < in ? begin + block : in;
    Vec part[Rows][Panels] = {};
    for (size_t k = begin; k < end; ++k)
      for (size_t p = 0; p < Panels; ++p) {
        const Vec w = load(packed + (p * in + k) * kPanel);
        for (size_t r = 0; r < Rows; ++r) part[r][p] = part[r][p] + same(x[r * in + k]) * w;
      }
    for (size_t r = 0; r < Rows; ++r)
      for (size_t p = 0; p < Panels; ++p) total[r][p] = total[r][p] + part[r][p];
  }
  for (size_t r = 0; r < Rows; ++r)
    for (size_t p = 0; p < Panels; ++p) store(y + r * out + p * kPanel, total[r][p]);
}

// A single row: four chains of additions hide their latency.
inline void single(const float* x, const float* packed, float* y, size_t in) {
  Vec chain[4] = {};
  size_t k = 0;
  for (; k + 4 <= in; k += 4)
    for (size_t c = 0; c < 4; ++c) chain[c] = chain[c] + same(x[k + c]) * load(packed + (k + c) * kPanel);
  for (; k < in; ++k) chain[0] = chain[0] + same(x[k]) * load(packed + k * kPanel);
  store(y, (chain[0] + chain[1]) + (chain[2] + chain[3]));
}

// Multiplies all rows by a few panels.
template <size_t Panels>
inline void strip(const float* x, const float* packed, float* y, size_t rows, size_t in, size_t out,
                  size_t block) {
  size_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows)
    tile<kTileRows, Panels>(x + r * in, packed, y + r * out, in, out, block);
  for (; r < rows; ++r) tile<1, Panels>(x + r * in, packed, y + r * out, in, out, block);
}

void matmul(const float* x, const float* packed, float* y, size_t rows, size_t in, size_t out, size_t block) {
  const size_t panels = out / kPanel;
  if (block == 0) {
    for (size_t r = 0; r < rows; ++r)
      for (size_t p = 0; p < panels; ++p)
        single(x + r * in, packed + p * in * kPanel, y + r * out + p * kPanel, in);
    return;
  }
  size_t p = 0;
  for (; p + kTilePanels <= panels; p += kTilePanels)
    strip<kTilePanels>(x, packed + p * in * kPanel, y + p * kPanel, rows, in, out, block);
  for (; p < panels; ++p) strip<1>(x, packed + p * in * kPanel, y + p * kPanel, rows, in, out, block);
}

// exp on [-87, 88]: powers of two by bits, the rest by a polynomial of degree 6 on [-ln2/2, ln2/2].
inline Vec exp_vec(const Vec& any) {
  const Vec x = clamp(any, -87.0f, 88.0f);
  const Vec magic = same(12582912.0f);  // 1.5 * 2^23: adding and removing it rounds to an integer
  const Vec n = (x * same(1.44269504f) + magic) - magic;
  const Vec r = (x - n * same(0.693359375f)) + n * same(2.12194440e-4f);
  Vec poly = r * same(1.3981999e-3f) + same(8.3334519e-3f);
  poly = poly * r + same(4.1665796e-2f);
  poly = poly * r + same(1.6666665e-1f);
  poly = poly * r + same(0.5f);
  poly = poly * r * r + r + same(1.0f);
  return each([&](size_t i) {
    const NativeInt bits = (__builtin_convertvector(n.part[i], NativeInt) + 127) << 23;
    Native scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return poly.part[i] * scale;
  });
}

// Applies `op` to 16 lanes at a time; the last, shorter group is copied to a padded buffer.
template <typename Op>
inline void for_lanes(const float* x, float* out, size_t n, Op op) {
  size_t i = 0;
  for (; i + kPanel <= n; i += kPanel) store(out + i, op(load(x + i)));
  if (i < n) {
    float rest[kPanel] = {};
    for (size_t j = i; j < n; ++j) rest[j - i] = x[j];
    store(rest, op(load(rest)));
    for (size_t j = i; j < n; ++j) out[j] = rest[j - i];
  }
}

inline Vec round_bf16_vec(const Vec& v) {
  return each([&](size_t i) {
    NativeInt bits;
    __builtin_memcpy(&bits, &v.part[i], sizeof bits);
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & static_cast<int>(0xFFFF0000U);
    Native rounded;
    __builtin_memcpy(&rounded, &bits, sizeof rounded);
    return rounded;
  });
}

void round_bf16(float* x, size_t n) {
  for_lanes(x, x, n, [](const Vec& v) { return round_bf16_vec(v); });
}

void score(const Attention& job) {
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(job.head_dim));
  for (size_t i = 0; i < job.count; ++i) {
    Vec part = {};
    for (size_t d = 0; d < job.head_dim; d += kPanel)
      part = part + load(job.query + d) * load(job.keys + i * job.stride + d);
    job.scores[i] = sum(part) * scale;
  }
}

void attend(const Attention& job) {
  score(job);
  float top = job.scores[0];
  for (size_t i = 1; i < job.count; ++i) top = job.scores[i] > top ? job.scores[i] : top;
  for_lanes(job.scores, job.scores, job.count, [top](const Vec& v) { return exp_vec(v - same(top)); });
  const size_t step = (job.count + job.splits - 1) / job.splits;
  float total = 0;
  for (size_t begin = 0; begin < job.count; begin += step) {
    float part = 0;
    for (size_t i = begin; i < begin + step && i < job.count; ++i) part += job.scores[i];
    total += part;
  }
  const float inverse = 1.0f / total;
  for_lanes(job.scores, job.scores, job.count, [inverse](const Vec& v) { return v * same(inverse); });
  if (job.round_probabilities) round_bf16(job.scores, job.count);
  for (size_t d = 0; d < job.head_dim; d += kPanel) {
    Vec out = {};
    for (size_t begin = 0; begin < job.count; begin += step) {
      Vec part = {};
      for (size_t i = begin; i < begin + step && i < job.count; ++i)
        part = part + same(job.scores[i]) * load(job.values + i * job.stride + d);
      out = out + part;
    }
    store(job.out + d, out);
  }
}

inline Vec to_int8(const Vec& v) {
  const Vec magic = same(12582912.0f);
  return (clamp(v, -127.0f, 127.0f) + magic) - magic;
}

float quantise_row(const float* x, float* q, size_t n) {
  float top = 0;
  for (size_t i = 0; i < n; ++i) {
    const float size = x[i] < 0 ? -x[i] : x[i];
    top = size > top ? size : top;
  }
  const float inverse = top > 0 ? 127.0f / top : 0.0f;
  for_lanes(x, q, n, [inverse](const Vec& v) { return to_int8(v * same(inverse)); });
  return top / 127.0f;
}

void quantise_static(const float* x, const float* inverse_scale, const float* scale, float* out, size_t n) {
  for (size_t i = 0; i < n; i += kPanel)
    store(out + i, to_int8(load(x + i) * load(inverse_scale + i)) * load(scale + i));
}

void silu_mul(const float* x, float* out, size_t n) {
  for (size_t i = 0; i < n; i += kPanel) {
    const Vec gate = load(x + i);
    store(out + i, gate / (same(1.0f) + exp_vec(Vec{} - gate)) * load(x + n + i));
  }
}

void rms_norm(const float* x, const float* weight, float eps, float* out, size_t n) {
  Vec squares = {};
  for (size_t i = 0; i < n; i += kPanel) squares = squares + load(x + i) * load(x + i);
  const float scale = 1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps);
  for (size_t i = 0; i < n; i += kPanel) store(out + i, load(x + i) * same(scale) * load(weight + i));
}

#define TINYLM_TEXT_OF(name) #name
#define TINYLM_TEXT(name) TINYLM_TEXT_OF(name)

}  // namespace

const tinylm::Kernels tinylm::TINYLM_ISA_NAME::kTable = {TINYLM_TEXT(TINYLM_ISA_NAME),
                                                         matmul,
                                                         attend,
                                                         round_bf16,
                                                         quantise_row,
                                                         quantise_static,
                                                         silu_mul,
                                                         rms_norm};
