#pragma once
/// The forward pass over a batch of sequences, each with its own key/value cache.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "examples/tinylm/src/linear.hpp"
#include "examples/tinylm/src/model.hpp"

namespace tinylm {

/// Keys and values of one sequence, for at most `capacity` tokens.
class Cache {
 public:
  Cache(const Config& config, std::size_t capacity);
  std::size_t length = 0;
  std::size_t capacity() const { return capacity_; }
  float* keys(std::size_t layer) { return data_.data() + 2 * layer * capacity_ * hidden_; }
  float* values(std::size_t layer) { return keys(layer) + capacity_ * hidden_; }

 private:
  std::size_t capacity_, hidden_;
  std::vector<float> data_;
};

/// New tokens of one sequence in a step. Logits are made for the last `logit_rows` of them.
struct Chunk {
  Cache* cache;
  std::span<const std::int32_t> tokens;
  std::size_t logit_rows;
};

/// Maxima of the inputs of layers, by name ("layers.0.attention" and so on), from calibration.
using ActivationMaxima = std::map<std::string, std::vector<float>>;

class Engine {
 public:
  /// `maxima` must hold every layer input for int8_static; the other precisions do not read it.
  static Result<Engine> create(const Model& model, Precision precision, const ActivationMaxima& maxima);

  /// Runs one step for all chunks together; returns the logits in chunk order, row by row,
  /// `logit_stride()` floats apart. Valid until the next call. A cache must have room for its tokens.
  std::span<const float> forward(std::span<const Chunk> chunks);
  /// The hidden states that lm_head was applied to in the last `forward`, row by row, `config().hidden`
  /// floats each.
  std::span<const float> hidden() const { return normed_; }
  std::size_t logit_stride() const { return head_.padded_out(); }
  std::size_t vocabulary() const { return config_.vocabulary; }
  const Config& config() const { return config_; }
  Precision precision() const { return precision_; }

  /// Called with (layer input name, rows, width, values) during forward; used by calibration.
  using Observer = std::function<void(const std::string&, std::size_t, std::size_t, const float*)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

 private:
  struct Layer {
    std::vector<float> attention_norm, mlp_norm;
    Linear qkv, output, gate_up, down;
    std::string name;
  };
  struct Row {
    Cache* cache;
    std::size_t position;
  };

  Engine(const Model& model, Precision precision, const ActivationMaxima& maxima);
  void embed(std::span<const Chunk> chunks);
  void attention(Layer& layer, std::size_t index);
  void store_keys(std::size_t layer, std::size_t row);
  void mlp(Layer& layer);
  void add_residual(const std::vector<float>& delta, std::size_t stride);
  void normalise(const std::vector<float>& weight);
  void round(std::vector<float>& values);
  void watch(const std::string& name, std::size_t rows, std::size_t width,
             const std::vector<float>& values) const;

  Config config_;
  Precision precision_;
  std::vector<float> embedding_, final_norm_, cosine_, sine_;
  std::vector<Layer> layers_;
  Linear head_;
  Observer observer_;
  std::vector<Row> rows_;
  std::vector<float> state_, normed_, qkv_, mixed_, wide_, inner_, delta_, scores_, logits_;
};

}  // namespace tinylm
