#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "gpu/capture/safetensors.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

std::unexpected<schema::Error> write_error(const std::filesystem::path& path) {
  const int code = errno;
  if (code == EEXIST)
    return schema::fail(ErrorCode::already_exists,
                        path.string() + " exists already: it is another writer's, or was left by one");
  return schema::fail(code == ENOSPC || code == EDQUOT ? ErrorCode::storage_full : ErrorCode::io,
                      "cannot write " + path.string() + ": " + std::strerror(code));
}

bool write_at(int fd, std::uint64_t offset, const void* data, std::size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::pwrite(fd, from, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    from += done;
    offset += static_cast<std::uint64_t>(done);
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

/// Gives a file its name unless there is a file of that name. Returns whether it has; else errno says why.
bool rename_to_new(const char* from, const char* to) {
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // Network file systems refuse the flag; most of them have links, which never replace a file.
  if (::link(from, to) == 0) {
    ::unlink(from);
    return true;
  }
  if (errno == EEXIST) return false;
  if (::access(to, F_OK) == 0) {
    errno = EEXIST;
    return false;
  }
  return ::rename(from, to) == 0;
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::filesystem::path& path,
                                                    const std::vector<Tensor>& tensors,
                                                    const std::map<std::string, std::string>& metadata,
                                                    Existing existing) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  SafetensorsWriter writer;
  std::uint64_t at = 0;
  for (const Tensor& tensor : tensors) {
    std::uint64_t size = size_bytes(tensor.dtype);
    for (const std::uint64_t extent : tensor.shape) {
      if (__builtin_mul_overflow(size, extent, &size)) {
        return schema::fail(ErrorCode::invalid_argument,
                            "tensor '" + tensor.name + "' has too large a shape");
      }
    }
    header[tensor.name] = {
        {"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {at, at + size}}};
    writer.ranges_.emplace_back(at, at + size);
    at += size;
  }
  std::string text = tensors.empty() && metadata.empty() ? "{}" : header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data are aligned to 8 bytes
  std::string prefix;
  for (std::size_t i = 0; i < 8; ++i) prefix.push_back(static_cast<char>(text.size() >> (8 * i)));
  const std::uint64_t data_offset = prefix.size() + text.size();
  for (auto& [begin, end] : writer.ranges_) {
    begin += data_offset;
    end += data_offset;
  }
  // The file is renamed into place, which would replace a device or a pipe by a regular file.
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
      !std::filesystem::is_directory(status)) {
    return schema::fail(ErrorCode::io, "cannot write " + path.string() + ": it is not a regular file");
  }
  writer.path_ = path;
  writer.partial_ = path.string() + ".partial";
  writer.existing_ = existing;
  if (existing == Existing::refuse && std::filesystem::exists(status)) {
    errno = EEXIST;
    return write_error(path);
  }
  const int how = existing == Existing::refuse ? O_EXCL : O_TRUNC;
  writer.fd_ = ::open(writer.partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0644);
  if (writer.fd_ < 0) return write_error(writer.partial_);
  const std::string head = prefix + text;
  if (!write_at(writer.fd_, 0, head.data(), head.size())) return write_error(writer.partial_);
  if (::ftruncate(writer.fd_, static_cast<off_t>(data_offset + at)) != 0) return write_error(writer.partial_);
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(partial_.c_str());
}

Result<void> SafetensorsWriter::write(std::size_t index, std::uint64_t offset_bytes,
                                      std::span<const std::byte> bytes) {
  const auto [begin, end] = ranges_.at(index);
  if (offset_bytes > end - begin || bytes.size() > end - begin - offset_bytes) {
    return schema::fail(ErrorCode::internal, "a write past the end of tensor " + std::to_string(index));
  }
  if (!write_at(fd_, begin + offset_bytes, bytes.data(), bytes.size())) return write_error(partial_);
  return {};
}

Result<void> SafetensorsWriter::finish() {
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  const bool renamed =
      closed && (existing_ == Existing::refuse ? rename_to_new(partial_.c_str(), path_.c_str())
                                               : ::rename(partial_.c_str(), path_.c_str()) == 0);
  if (!renamed) {
    auto error = write_error(path_);
    ::unlink(partial_.c_str());
    return error;
  }
  return {};
}

}  // namespace driftgate::gpu
