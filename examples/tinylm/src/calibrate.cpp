#include <algorithm>
#include <cmath>

#include "examples/tinylm/src/capture.hpp"

namespace tinylm {

Result<void> write_calibration(Engine& engine, const std::string& corpus_path, const std::string& out) {
  auto corpus = read_corpus(corpus_path, engine.config().max_positions);
  if (!corpus) return std::unexpected(corpus.error());
  TensorFile file;
  engine.observe([&](const std::string& name, std::size_t rows, std::size_t width, const float* values) {
    Tensor& maxima = file.tensors[name];
    maxima.shape = {width};
    maxima.floats.resize(width);
    for (std::size_t i = 0; i < rows * width; ++i)
      maxima.floats[i % width] = std::max(maxima.floats[i % width], std::abs(values[i]));
  });
  for (const Sequence& sequence : corpus->sequences) {
    Cache cache(engine.config(), sequence.tokens.size());
    const Chunk chunk{&cache, sequence.tokens, sequence.tokens.size()};
    engine.forward({&chunk, 1});
  }
  engine.observe(nullptr);
  file.metadata = {{"calibration.corpus.digest", corpus->digest}};
  return write_safetensors(out, file);
}

Result<ActivationMaxima> read_calibration(const std::string& path) {
  auto file = read_safetensors(path);
  if (!file) return fail(file.error().message + "; make it with `tinylm calibrate`");
  ActivationMaxima maxima;
  for (auto& [name, tensor] : file->tensors) {
    for (const float value : tensor.floats)
      if (!(value >= 0) || !std::isfinite(value))
        return fail(path + ": " + name + " holds a negative or non-finite maximum");
    maxima[name] = std::move(tensor.floats);
  }
  return maxima;
}

}  // namespace tinylm
