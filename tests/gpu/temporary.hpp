#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/capture/safetensors.hpp"

namespace driftgate::gpu::test {

/// A folder of its own that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "driftgate-gpu-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A safetensors file around any header text.
inline std::string with_header(std::string_view header, std::size_t data_bytes) {
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) out.push_back(static_cast<char>(header.size() >> (8 * i)));
  return out + std::string(header) + std::string(data_bytes, '\x01');
}

/// A small full-mode capture in F32 to be varied before it is written.
struct CaptureDraft {
  std::uint64_t vocabulary = 4;
  std::vector<float> logits;
  std::vector<std::int32_t> tokens, sequences, positions;
  std::map<std::string, std::string> metadata = {
      {"capture.version", "1"}, {"kernel", "k"}, {"temperature", "1.0"}};

  void add_row(std::int32_t sequence, std::int32_t position, std::int32_t token,
               const std::vector<float>& row) {
    logits.insert(logits.end(), row.begin(), row.end());
    tokens.push_back(token);
    sequences.push_back(sequence);
    positions.push_back(position);
  }
  /// As several files of a new folder, one up to each of these rows.
  void write_parts(const std::filesystem::path& folder, std::initializer_list<std::size_t> ends) const {
    std::filesystem::create_directory(folder);
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      CaptureDraft part = *this;
      const auto cut = [&](auto& values, std::uint64_t width) {
        values = {values.begin() + static_cast<std::ptrdiff_t>(begin * width),
                  values.begin() + static_cast<std::ptrdiff_t>(end * width)};
      };
      cut(part.logits, vocabulary), cut(part.tokens, 1), cut(part.sequences, 1), cut(part.positions, 1);
      part.write(folder / (std::to_string(1'000 + end) + ".safetensors"));  // read in the order of names
      begin = end;
    }
  }
  void write(const std::filesystem::path& path) const {
    const std::uint64_t rows = sequences.size();
    std::vector<SafetensorsWriter::Tensor> tensors = {{"logits", DType::f32, {rows, vocabulary}},
                                                      {"sequence_ids", DType::i32, {rows}}};
    if (!tokens.empty()) tensors.push_back({"token_ids", DType::i32, {rows}});
    if (!positions.empty()) tensors.push_back({"positions", DType::i32, {rows}});
    auto writer = SafetensorsWriter::create(path, tensors, metadata);
    if (!writer) throw std::runtime_error(writer.error().describe());
    std::size_t at = 0;
    const auto put = [&](const auto& values) {
      if (auto ok = writer->write(at++, 0, std::as_bytes(std::span(values))); !ok)
        throw std::runtime_error("write");
    };
    put(logits);
    put(sequences);
    if (!tokens.empty()) put(tokens);
    if (!positions.empty()) put(positions);
    if (auto ok = writer->finish(); !ok) throw std::runtime_error(ok.error().describe());
  }
};

}  // namespace driftgate::gpu::test
