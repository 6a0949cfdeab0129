#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "daemon/library/driftgate.h"
#include "daemon/library/guard.hpp"
#include "daemon/library/kept_tensors.hpp"
#include "daemon/library/memory_rows.hpp"
#include "daemon/library/objects.hpp"
#include "gpu/capture/safetensors.hpp"

using namespace driftgate;
using namespace driftgate::library;
using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::uint64_t kDefaultPartBytes = std::uint64_t{256} << 20;
constexpr const char* kHeadFile = "head.tensors";  // not *.safetensors, which would be taken for a part

/// Keeps other writers off a folder, in this process and in others, until it goes or the process ends. Where
/// a file system has no such locks, other writers are found by their files, which none of them replaces.
class FolderClaim {
 public:
  FolderClaim() = default;
  FolderClaim(const FolderClaim&) = delete;
  FolderClaim& operator=(const FolderClaim&) = delete;
  ~FolderClaim() {
    if (folder_ < 0) return;
    ::flock(folder_, LOCK_UN);  // by closing alone, a child process would keep it
    ::close(folder_);
  }
  Result<void> take(const std::filesystem::path& folder) {
    folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_ < 0 || ::flock(folder_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
    ::close(std::exchange(folder_, -1));
    return schema::fail(
        ErrorCode::already_exists,
        folder.string() + " is being written by another writer: each needs a folder of its own");
  }

 private:
  int folder_ = -1;
};

}  // namespace

struct dg_writer {
  std::filesystem::path folder;
  Metadata identity;
  std::uint64_t part_bytes = kDefaultPartBytes;
  KeptTensors gathered{};
  std::uint64_t parts = 0;
  std::shared_ptr<const gpu::fused::LmHead> head{};  ///< that was written
  Metadata head_metadata{};                          ///< of the parts, where the rows are hidden states
  bool finished = false, broken = false;
  FolderClaim claim{};
};

namespace {

bool is_of_capture(const std::filesystem::path& name) {
  if (name.extension() == ".partial") return is_of_capture(name.stem());
  return name.extension() == ".safetensors" || name == kHeadFile;
}

/// Makes the folder, claims it and sees to it that it has no capture yet.
Result<void> begin_folder(dg_writer& writer) {
  const std::filesystem::path& folder = writer.folder;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) TRY(writer.claim.take(folder));
  auto it = std::filesystem::directory_iterator(folder, error);
  for (; !error && it != std::filesystem::end(it); it.increment(error)) {
    if (is_of_capture(it->path().filename()))
      return schema::fail(ErrorCode::already_exists,
                          folder.string() + " has the file " + it->path().filename().string() +
                              " already: a capture is written to a folder without one");
  }
  if (error)
    return schema::fail(ErrorCode::io,
                        "cannot write to the folder " + folder.string() + ": " + error.message());
  return {};
}

Result<void> write_head(dg_writer& to, const dg_head& head) {
  const dg_head_options& given = head.given;
  std::vector<gpu::SafetensorsWriter::Tensor> tensors;
  std::vector<std::span<const std::byte>> bytes;
  const auto add = [&](const char* name, gpu::DType dtype, std::vector<std::uint64_t> shape,
                       const void* data) {
    std::uint64_t size = gpu::size_bytes(dtype);
    for (const std::uint64_t extent : shape) size *= extent;  // checked when the head was made
    tensors.push_back({name, dtype, std::move(shape)});
    bytes.emplace_back(static_cast<const std::byte*>(data), static_cast<std::size_t>(size));
  };
  const gpu::DType dtype = TRY(dtype_of(given.weight.dtype, "weight"));
  add("lm_head.weight", dtype, {given.rows, given.weight.columns}, given.weight.data);
  to.head_metadata["lm_head"] = fmt::format("{}#lm_head.weight", kHeadFile);
  if (given.bias != nullptr) {
    const gpu::DType of_bias = TRY(dtype_of(given.bias_dtype, "bias"));
    add("lm_head.bias", of_bias, {given.rows}, given.bias);
    to.head_metadata["lm_head.bias"] = "lm_head.bias";
  }
  if (given.scale != 0) to.head_metadata["lm_head.scale"] = fmt::format("{}", given.scale);
  if (given.soft_cap != 0) to.head_metadata["lm_head.soft_cap"] = fmt::format("{}", given.soft_cap);
  if (given.vocabulary != 0) to.head_metadata["lm_head.vocabulary"] = std::to_string(given.vocabulary);
  auto file = TRY(gpu::SafetensorsWriter::create(to.folder / kHeadFile, tensors, {},
                                                 gpu::SafetensorsWriter::Existing::refuse));
  for (std::size_t i = 0; i < bytes.size(); ++i) TRY(file.write(i, 0, bytes[i]));
  return file.finish();
}

/// Writes what was gathered as the next part.
Result<void> write_part(dg_writer& to) {
  const std::uint64_t rows = to.gathered.rows();
  if (rows == 0) return {};
  if (to.parts == gpu::kMaxCaptureFiles)
    return schema::fail(ErrorCode::limit_exceeded,
                        "a capture has at most 10,000 files: make the parts larger");
  std::vector<gpu::SafetensorsWriter::Tensor> tensors;
  for (const KeptTensors::Tensor& tensor : to.gathered.tensors()) {
    std::vector<std::uint64_t> shape{rows};
    shape.insert(shape.end(), tensor.of_row.begin(), tensor.of_row.end());
    tensors.push_back({tensor.name, tensor.dtype, std::move(shape)});
  }
  Metadata metadata = to.gathered.metadata();
  metadata.insert(to.head_metadata.begin(), to.head_metadata.end());
  auto file =
      TRY(gpu::SafetensorsWriter::create(to.folder / fmt::format("part-{:06}.safetensors", to.parts), tensors,
                                         metadata, gpu::SafetensorsWriter::Existing::refuse));
  for (std::size_t i = 0; i < tensors.size(); ++i) TRY(file.write(i, 0, to.gathered.tensors()[i].bytes));
  TRY(file.finish());
  ++to.parts;
  to.gathered.truncate(0);
  return {};
}

/// After an error the files are in a state that nobody knows.
Result<void> or_broken(dg_writer& to, Result<void> done) {
  if (!done) to.broken = true;
  return done;
}

Result<void> check_open(const dg_writer& writer) {
  if (writer.finished)
    return schema::fail(ErrorCode::conflict, "the capture is finished: nothing can be appended");
  if (writer.broken)
    return schema::fail(ErrorCode::conflict, "the capture could not be written: close the writer");
  return {};
}

Result<void> append(dg_writer& to, const dg_rows* given) {
  TRY(check_open(to));
  dg_rows rows = TRY(read_struct(given, "the rows"));
  rows.struct_size = sizeof(dg_rows);
  if (rows.rows == 0) return {};
  const GivenRows read = TRY(read_rows(rows, "the rows", to.identity));
  if (read.rows.on_device)
    return schema::fail(ErrorCode::invalid_argument,
                        "the rows are in the memory of a device: copy them to the host");
  TRY(gpu::Capture::of_memory(read.rows));  // the rules of captures
  if (auto same = to.gathered.check(read.rows); !same)
    return schema::fail(ErrorCode::invalid_argument, same.error().message);
  if (to.head != nullptr && to.head != read.rows.head)
    return schema::fail(ErrorCode::invalid_argument, "the rows have another head than the ones before");
  if (to.head == nullptr && read.rows.head != nullptr) {
    TRY(or_broken(to, write_head(to, *rows.head)));
    to.head = read.rows.head;
  }
  to.gathered.append(read.rows);
  if (to.gathered.bytes() >= to.part_bytes) return or_broken(to, write_part(to));
  return {};
}

Result<void> finish(dg_writer& writer) {
  TRY(check_open(writer));
  if (writer.parts == 0 && writer.gathered.rows() == 0)
    return schema::fail(ErrorCode::conflict, "the capture has no rows: nothing was written");
  TRY(or_broken(writer, write_part(writer)));
  writer.finished = true;
  return {};
}

}  // namespace

extern "C" {

dg_status dg_writer_create(dg_text path, const dg_writer_options* options, dg_writer** out, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(out, "out"));
    const std::string folder = TRY(path_of(path, "the path of the capture"));
    const dg_writer_options given = TRY(read_optional(options, "the options of the writer"));
    Metadata identity = TRY(metadata_of(given.identity, "the identity"));
    auto made = std::make_unique<dg_writer>(folder, std::move(identity));
    TRY(begin_folder(*made));
    if (given.part_bytes != 0) made->part_bytes = given.part_bytes;
    *out = made.release();
    return {};
  });
}

dg_status dg_writer_append(dg_writer* writer, const dg_rows* rows, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(writer, "writer"));
    return append(*writer, rows);
  });
}

dg_status dg_writer_finish(dg_writer* writer, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(writer, "writer"));
    return finish(*writer);
  });
}

void dg_writer_close(dg_writer* writer) {
  delete writer;
}

}  // extern "C"
