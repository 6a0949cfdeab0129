#include "gpu/capture/safetensors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

std::unexpected<schema::Error> system_error(std::string_view verb, const std::filesystem::path& path) {
  const int code = errno;
  const ErrorCode kind = code == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  return schema::fail(kind, "cannot " + std::string(verb) + " " + path.string() + ": " + std::strerror(code));
}

FileStamp stamp_of(const struct stat& status) {
  const auto ns = [](const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; };
  return {status.st_ino, static_cast<std::uint64_t>(status.st_size), ns(status.st_mtim), ns(status.st_ctim)};
}

}  // namespace

struct SafetensorsFile::Mapping {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  int fd = -1;
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data != nullptr) ::munmap(const_cast<std::byte*>(data), size);
    if (fd >= 0) ::close(fd);
  }
};

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.path_ = path;
  auto mapping = std::make_shared<Mapping>();
  mapping->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (mapping->fd < 0) return system_error("open", path);
  struct stat status {};
  if (::fstat(mapping->fd, &status) != 0) return system_error("examine", path);
  if (!S_ISREG(status.st_mode)) {
    return schema::fail(ErrorCode::invalid_capture, path.string() + " is not a regular file");
  }
  file.stamp_ = stamp_of(status);
  mapping->size = static_cast<std::size_t>(status.st_size);
  if (mapping->size != 0) {
    void* map = ::mmap(nullptr, mapping->size, PROT_READ, MAP_PRIVATE, mapping->fd, 0);
    if (map == MAP_FAILED) return system_error("map", path);
    mapping->data = static_cast<const std::byte*>(map);
  }
  const std::string_view all(reinterpret_cast<const char*>(mapping->data), mapping->size);
  auto header = parse_safetensors_header(all, mapping->size);
  if (!header) return schema::wrap(header.error(), path.string() + " is not a valid safetensors file");
  file.header_ = std::move(*header);
  file.mapping_ = std::move(mapping);
  return file;
}

Result<SafetensorsFile> SafetensorsFile::of_memory(std::string name, const std::vector<MemoryTensor>& tensors,
                                                   std::map<std::string, std::string> metadata) {
  SafetensorsFile file;
  file.path_ = std::move(name);
  file.header_.metadata = std::move(metadata);
  std::uint64_t at = 0;
  for (const MemoryTensor& tensor : tensors) {
    std::uint64_t size = size_bytes(tensor.dtype);
    for (const std::uint64_t extent : tensor.shape) {
      if (__builtin_mul_overflow(size, extent, &size)) size = SIZE_MAX;
    }
    if (size > PTRDIFF_MAX || at > PTRDIFF_MAX) {
      return schema::fail(ErrorCode::invalid_argument,
                          file.path_.string() + ": tensor '" + tensor.name + "' has too large a shape");
    }
    file.header_.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, at, at + size});
    file.data_.push_back(tensor.data);
    at += size;
  }
  return file;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(header_.tensors, name, &TensorInfo::name);
  return found == header_.tensors.end() ? nullptr : &*found;
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorInfo& tensor) const {
  if (in_memory()) {
    const auto at =
        std::ranges::find(header_.tensors, tensor.name, &TensorInfo::name) - header_.tensors.begin();
    return {data_[static_cast<std::size_t>(at)], static_cast<std::size_t>(tensor.end - tensor.begin)};
  }
  return file_bytes().subspan(static_cast<std::size_t>(header_.data_offset + tensor.begin),
                              static_cast<std::size_t>(tensor.end - tensor.begin));
}

std::span<const std::byte> SafetensorsFile::file_bytes() const {
  if (in_memory()) return {};
  return {mapping_->data, mapping_->size};
}

Result<void> SafetensorsFile::check_unchanged() const {
  if (in_memory()) return {};
  struct stat status {};
  if (::fstat(mapping_->fd, &status) != 0) return system_error("examine", path_);
  if (static_cast<std::size_t>(status.st_size) != mapping_->size) {
    return schema::fail(ErrorCode::io, path_.string() +
                                           " changed its size while it was read; write captures under "
                                           "another name and rename them when they are complete");
  }
  return {};
}

}  // namespace driftgate::gpu
