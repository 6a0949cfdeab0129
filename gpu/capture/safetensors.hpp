#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::gpu {

/// Limits of docs/design/measurement.md, "Safetensors rules".
inline constexpr std::size_t kMaxSafetensorsHeaderBytes = 16'000'000;
inline constexpr std::size_t kMaxSafetensorsTensors = 200'000;
inline constexpr std::size_t kMaxSafetensorsRank = 8;
inline constexpr std::size_t kMaxSafetensorsNameBytes = 4'096;  ///< of a tensor's name or a metadata key

enum class DType : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e4m3,
  f8_e5m2,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64
};
[[nodiscard]] std::string_view to_string(DType dtype);  ///< "F32" …
[[nodiscard]] std::size_t size_bytes(DType dtype);

/// Name, type, shape and byte range of one tensor. `begin` and `end` are relative to the end of the header.
struct TensorInfo {
  std::string name;
  DType dtype{};
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

/// The header of a safetensors file: its tensors in the order of their bytes, and its metadata.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  ///< of the first tensor byte in the file
};

/// Parses the header of a file and checks every rule of docs/design/measurement.md, "Safetensors rules".
/// `bytes` begins at the start of the file and holds at least the header; `file_bytes` is the size of the
/// whole file. Errors: invalid_capture, whose message reads `rule "…": …`, with the name of the tensor where
/// there is one.
[[nodiscard]] schema::Result<SafetensorsHeader> parse_safetensors_header(std::string_view bytes,
                                                                         std::uint64_t file_bytes);

/// What tells a file from others of its name, on every host that shares the file system: any write, rename or
/// change of mode sets a new ctime.
struct FileStamp {
  std::uint64_t inode = 0, bytes = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

/// A tensor in the memory of a caller. `data` may be null where the shape has no elements.
struct MemoryTensor {
  std::string name;
  DType dtype{};
  std::vector<std::uint64_t> shape;
  const std::byte* data = nullptr;
};

/// A safetensors file mapped into memory, read-only; copies share the mapping. Nobody may write to a capture
/// in use: when a mapped file is truncated, reading the missing bytes raises SIGBUS. `check_unchanged`,
/// called before each batch, detects a changed size.
class SafetensorsFile {
 public:
  [[nodiscard]] static schema::Result<SafetensorsFile> open(const std::filesystem::path& path);
  /// Tensors and metadata as those of a file, but in memory that the caller keeps as it is. `name` stands for
  /// the path. Errors: invalid_argument for a shape whose bytes cannot be counted.
  [[nodiscard]] static schema::Result<SafetensorsFile> of_memory(std::string name,
                                                                 const std::vector<MemoryTensor>& tensors,
                                                                 std::map<std::string, std::string> metadata);

  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Null when there is no tensor of that name.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;
  [[nodiscard]] std::span<const std::byte> bytes(const TensorInfo& tensor) const;
  /// As of when the file was opened.
  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }
  /// All bytes of the file, for digests; none where it is in memory.
  [[nodiscard]] std::span<const std::byte> file_bytes() const;
  [[nodiscard]] bool in_memory() const { return mapping_ == nullptr; }
  /// Errors: io when the size of the file has changed since it was opened.
  [[nodiscard]] schema::Result<void> check_unchanged() const;

 private:
  struct Mapping;
  SafetensorsFile() = default;
  std::filesystem::path path_;
  SafetensorsHeader header_;
  FileStamp stamp_;
  std::shared_ptr<const Mapping> mapping_;  ///< null: in memory
  std::vector<const std::byte*> data_;      ///< of each tensor in memory
};

/// Writes a safetensors file. Tensors are declared first and written piece by piece, so that the file may be
/// larger than memory.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    DType dtype{};
    std::vector<std::uint64_t> shape;
  };
  enum class Existing : std::uint8_t { replace, refuse };
  /// Writes the header to `path` + ".partial", which `finish` renames to `path`. With Existing::refuse both
  /// of them fail with already_exists where there is such a file, so that of several writers of a path one
  /// succeeds.
  [[nodiscard]] static schema::Result<SafetensorsWriter> create(
      const std::filesystem::path& path, const std::vector<Tensor>& tensors,
      const std::map<std::string, std::string>& metadata, Existing existing = Existing::replace);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept
      : path_(std::move(other.path_)),
        partial_(std::move(other.partial_)),
        ranges_(std::move(other.ranges_)),
        existing_(other.existing_),
        fd_(std::exchange(other.fd_, -1)) {}
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  /// Writes bytes of tensor `index` (in the order of `create`) at `offset_bytes` within it.
  [[nodiscard]] schema::Result<void> write(std::size_t index, std::uint64_t offset_bytes,
                                           std::span<const std::byte> bytes);
  [[nodiscard]] schema::Result<void> finish();

 private:
  SafetensorsWriter() = default;
  std::filesystem::path path_, partial_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;  ///< of each tensor, from the file's start
  Existing existing_ = Existing::replace;
  int fd_ = -1;
};

}  // namespace driftgate::gpu
