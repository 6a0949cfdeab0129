#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/capture/safetensors.hpp"
#include "tests/gpu/temporary.hpp"

namespace driftgate::gpu::test {

/// A small capture in a partial mode, to be varied before it is written.
struct PartialDraft {
  using List = std::vector<std::pair<std::int32_t, float>>;
  std::size_t columns = 0;  ///< K; 0 = realised mode
  std::vector<List> lists;
  std::vector<std::int32_t> tokens, sequences, positions;
  std::vector<float> logprobs;  ///< empty = no such tensor
  std::map<std::string, std::string> metadata = {
      {"capture.version", "1"}, {"kernel", "k"}, {"temperature", "1.0"}, {"vocabulary", "100"}};

  void add_row(std::int32_t sequence, std::int32_t position, std::int32_t token, std::optional<float> logprob,
               List list) {
    sequences.push_back(sequence);
    positions.push_back(position);
    tokens.push_back(token);
    if (logprob) logprobs.push_back(*logprob);
    columns = std::max(columns, list.size());
    lists.push_back(std::move(list));
  }

  void write(const std::filesystem::path& path) const {
    const std::uint64_t rows = sequences.size();
    std::vector<std::int32_t> ids;
    std::vector<float> values;
    for (const List& list : lists) {
      for (std::size_t i = 0; i < columns; ++i) {
        ids.push_back(i < list.size() ? list[i].first : -1);
        values.push_back(i < list.size() ? list[i].second : -9999.0F);
      }
    }
    std::vector<SafetensorsWriter::Tensor> tensors;
    std::vector<std::span<const std::byte>> bytes;
    const auto add = [&](const char* name, DType dtype, std::vector<std::uint64_t> shape, const auto& data) {
      tensors.push_back({name, dtype, std::move(shape)});
      bytes.push_back(std::as_bytes(std::span(data)));
    };
    if (columns > 0) {
      add("topk_ids", DType::i32, {rows, columns}, ids);
      add("topk_logprobs", DType::f32, {rows, columns}, values);
    }
    add("sequence_ids", DType::i32, {rows}, sequences);
    if (!positions.empty()) add("positions", DType::i32, {rows}, positions);
    if (!tokens.empty()) add("token_ids", DType::i32, {rows}, tokens);
    if (!logprobs.empty()) add("logprobs", DType::f32, {rows}, logprobs);
    auto writer = SafetensorsWriter::create(path, tensors, metadata);
    if (!writer) throw std::runtime_error(writer.error().describe());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (auto ok = writer->write(i, 0, bytes[i]); !ok) throw std::runtime_error(ok.error().describe());
    }
    if (auto ok = writer->finish(); !ok) throw std::runtime_error(ok.error().describe());
  }
};

}  // namespace driftgate::gpu::test
