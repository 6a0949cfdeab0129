#include "examples/tinylm/src/engine.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "examples/tinylm/src/kernels.hpp"

namespace tinylm {
namespace {

const std::vector<float>& weight_of(const Model& model, const std::string& name) {
  return model.weights.tensors.at(name).floats;
}

// Layers that share an input are run as one matrix: their output channels follow one another.
std::vector<float> stacked(const Model& model, const std::string& at,
                           std::initializer_list<const char*> names) {
  std::vector<float> all;
  for (const char* name : names) {
    const auto& part = weight_of(model, at + name + ".weight");
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Integer kernels keep the head in float32, as most engines do: it is small, and its errors would directly be
// errors of the logits.
Precision head_precision(Precision precision) {
  return precision == Precision::bf16 ? precision : Precision::f32;
}

std::vector<float> maxima_of(const ActivationMaxima& maxima, const std::string& name, std::size_t width) {
  const auto found = maxima.find(name);
  return found == maxima.end() ? std::vector<float>(width, 1.0f) : found->second;
}

}  // namespace

Cache::Cache(const Config& config, std::size_t capacity)
    : capacity_(capacity), hidden_(config.hidden), data_(2 * config.layers * capacity * config.hidden) {}

Result<Engine> Engine::create(const Model& model, Precision precision, const ActivationMaxima& maxima) {
  if (precision == Precision::int8_static) {
    const Config& c = model.config;
    std::map<std::string, std::size_t> wanted;
    for (std::size_t i = 0; i < c.layers; ++i) {
      const std::string at = "layers." + std::to_string(i) + ".";
      wanted[at + "attention"] = wanted[at + "output"] = wanted[at + "mlp"] = c.hidden;
      wanted[at + "down"] = c.intermediate;
    }
    for (const auto& [name, width] : wanted)
      if (!maxima.contains(name) || maxima.at(name).size() != width)
        return fail("the activation scales lack " + name + " with " + std::to_string(width) +
                    " channels: make them for this model with `tinylm calibrate`");
  }
  return Engine(model, precision, maxima);
}

Engine::Engine(const Model& model, Precision precision, const ActivationMaxima& maxima)
    : config_(model.config),
      precision_(precision),
      embedding_(weight_of(model, "model.embed_tokens.weight")),
      final_norm_(weight_of(model, "model.norm.weight")),
      head_(head_precision(precision), weight_of(model, "lm_head.weight"), config_.vocabulary, config_.hidden,
            {}) {
  const std::size_t d = config_.hidden, m = config_.intermediate;
  for (std::size_t i = 0; i < config_.layers; ++i) {
    const std::string name = "layers." + std::to_string(i) + ".", at = "model." + name;
    layers_.push_back(
        {weight_of(model, at + "input_layernorm.weight"),
         weight_of(model, at + "post_attention_layernorm.weight"),
         Linear(precision, stacked(model, at, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}),
                3 * d, d, maxima_of(maxima, name + "attention", d)),
         Linear(precision, stacked(model, at, {"self_attn.o_proj"}), d, d,
                maxima_of(maxima, name + "output", d)),
         Linear(precision, stacked(model, at, {"mlp.gate_proj", "mlp.up_proj"}), 2 * m, d,
                maxima_of(maxima, name + "mlp", d)),
         Linear(precision, stacked(model, at, {"mlp.down_proj"}), d, m, maxima_of(maxima, name + "down", m)),
         name});
    round(layers_.back().attention_norm);
    round(layers_.back().mlp_norm);
  }
  round(embedding_);
  round(final_norm_);
  const std::size_t half = d / config_.heads / 2;
  for (std::size_t t = 0; t < config_.max_positions; ++t)
    for (std::size_t i = 0; i < half; ++i) {
      const double exponent = static_cast<double>(i) / static_cast<double>(half);
      const auto inverse = static_cast<float>(std::pow(static_cast<double>(config_.rope_theta), -exponent));
      const float angle = static_cast<float>(t) * inverse;
      cosine_.push_back(std::cos(angle));
      sine_.push_back(std::sin(angle));
    }
  round(cosine_);
  round(sine_);
}

void Engine::round(std::vector<float>& values) {
  if (precision_ == Precision::bf16) kernels().round_bf16(values.data(), values.size());
}

void Engine::watch(const std::string& name, std::size_t rows, std::size_t width,
                   const std::vector<float>& values) const {
  if (observer_) observer_(name, rows, width, values.data());
}

void Engine::embed(std::span<const Chunk> chunks) {
  rows_.clear();
  state_.clear();
  for (const Chunk& chunk : chunks) {
    assert(chunk.cache->length + chunk.tokens.size() <= chunk.cache->capacity());
    for (std::size_t i = 0; i < chunk.tokens.size(); ++i) {
      rows_.push_back({chunk.cache, chunk.cache->length + i});
      const auto token = static_cast<std::ptrdiff_t>(chunk.tokens[i]);
      const auto width = static_cast<std::ptrdiff_t>(config_.hidden);
      state_.insert(state_.end(), embedding_.begin() + token * width,
                    embedding_.begin() + (token + 1) * width);
    }
  }
}

void Engine::normalise(const std::vector<float>& weight) {
  const std::size_t d = config_.hidden;
  normed_.resize(state_.size());
  for (std::size_t r = 0; r < state_.size() / d; ++r)
    kernels().rms_norm(state_.data() + r * d, weight.data(), config_.norm_eps, normed_.data() + r * d, d);
  round(normed_);
}

// Rotates query and key of a row in place (RoPE) and stores key and value in the cache at the position of the
// row.
void Engine::store_keys(std::size_t layer, std::size_t row) {
  const std::size_t d = config_.hidden, head_dim = d / config_.heads, half = head_dim / 2;
  const auto [cache, position] = rows_[row];
  float* qkv = qkv_.data() + row * 3 * d;
  const float* cosine = cosine_.data() + position * half;
  const float* sine = sine_.data() + position * half;
  for (std::size_t part = 0; part < 2 * d; part += head_dim)
    for (std::size_t i = 0; i < half; ++i) {
      const float a = qkv[part + i], b = qkv[part + half + i];
      qkv[part + i] = a * cosine[i] - b * sine[i];
      qkv[part + half + i] = b * cosine[i] + a * sine[i];
    }
  if (precision_ == Precision::bf16) kernels().round_bf16(qkv, 2 * d);
  std::copy(qkv + d, qkv + 2 * d, cache->keys(layer) + position * d);
  std::copy(qkv + 2 * d, qkv + 3 * d, cache->values(layer) + position * d);
}

void Engine::attention(Layer& layer, std::size_t index) {
  const std::size_t d = config_.hidden, head_dim = d / config_.heads, rows = rows_.size();
  normalise(layer.attention_norm);
  watch(layer.name + "attention", rows, d, normed_);
  qkv_.resize(rows * 3 * d);
  layer.qkv.apply(normed_.data(), rows, qkv_.data());
  for (std::size_t r = 0; r < rows; ++r) store_keys(index, r);
  mixed_.resize(rows * d);
  scores_.resize(config_.max_positions);
  const std::size_t splits = rows < 4 ? 4 : 1;  // a small batch splits its keys, as decoding kernels do
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t head = 0; head < d; head += head_dim)
      kernels().attend({qkv_.data() + r * 3 * d + head, rows_[r].cache->keys(index) + head,
                        rows_[r].cache->values(index) + head, rows_[r].position + 1, d, head_dim, splits,
                        precision_ == Precision::bf16, scores_.data(), mixed_.data() + r * d + head});
  round(mixed_);
  watch(layer.name + "output", rows, d, mixed_);
  delta_.resize(rows * layer.output.padded_out());
  layer.output.apply(mixed_.data(), rows, delta_.data());
  add_residual(delta_, layer.output.padded_out());
}

void Engine::mlp(Layer& layer) {
  const std::size_t m = config_.intermediate, rows = rows_.size();
  normalise(layer.mlp_norm);
  watch(layer.name + "mlp", rows, config_.hidden, normed_);
  wide_.resize(rows * 2 * m);
  layer.gate_up.apply(normed_.data(), rows, wide_.data());
  inner_.resize(rows * m);
  for (std::size_t r = 0; r < rows; ++r)
    kernels().silu_mul(wide_.data() + r * 2 * m, inner_.data() + r * m, m);
  round(inner_);
  watch(layer.name + "down", rows, m, inner_);
  delta_.resize(rows * layer.down.padded_out());
  layer.down.apply(inner_.data(), rows, delta_.data());
  add_residual(delta_, layer.down.padded_out());
}

void Engine::add_residual(const std::vector<float>& delta, std::size_t stride) {
  const std::size_t d = config_.hidden;
  for (std::size_t r = 0; r < rows_.size(); ++r)
    for (std::size_t i = 0; i < d; ++i) state_[r * d + i] += delta[r * stride + i];
  round(state_);
}

std::span<const float> Engine::forward(std::span<const Chunk> chunks) {
  embed(chunks);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    attention(layers_[i], i);
    mlp(layers_[i]);
  }
  const auto d = static_cast<std::ptrdiff_t>(config_.hidden);
  std::vector<float> scored;
  std::ptrdiff_t row = 0;
  for (const Chunk& chunk : chunks) {
    row += static_cast<std::ptrdiff_t>(chunk.tokens.size());
    const auto first = state_.begin() + (row - static_cast<std::ptrdiff_t>(chunk.logit_rows)) * d;
    scored.insert(scored.end(), first, state_.begin() + row * d);
    chunk.cache->length += chunk.tokens.size();
  }
  state_ = std::move(scored);
  normalise(final_norm_);
  const std::size_t rows = normed_.size() / config_.hidden;
  logits_.resize(rows * head_.padded_out());
  if (rows != 0) head_.apply(normed_.data(), rows, logits_.data(), false);
  return logits_;
}

}  // namespace tinylm
