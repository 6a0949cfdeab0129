#include "gpu/safetensors.hpp"

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
  return schema::fail(kind,
                      "can not " + std::string(verb) + " " + path.string() + ": " + std::strerror(code));
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) return system_error("open", path);
  struct stat status {};
  if (::fstat(file.fd_, &status) != 0) return system_error("examine", path);
  if (!S_ISREG(status.st_mode)) {
    return schema::fail(ErrorCode::invalid_capture, path.string() + " is not a regular file");
  }
  file.size_ = static_cast<std::size_t>(status.st_size);
  if (file.size_ != 0) {
    void* map = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, file.fd_, 0);
    if (map == MAP_FAILED) return system_error("map", path);
    file.map_ = static_cast<const std::byte*>(map);
  }
  const std::string_view all(reinterpret_cast<const char*>(file.map_), file.size_);
  auto header = parse_safetensors_header(all, file.size_);
  if (!header) return schema::wrap(header.error(), path.string() + " is not a valid safetensors file");
  file.header_ = std::move(*header);
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      header_(std::move(other.header_)),
      map_(std::exchange(other.map_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      fd_(std::exchange(other.fd_, -1)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  header_ = std::move(other.header_);
  map_ = std::exchange(other.map_, nullptr);
  size_ = std::exchange(other.size_, 0);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  close();
}

void SafetensorsFile::close() noexcept {
  if (map_ != nullptr) ::munmap(const_cast<std::byte*>(map_), size_);
  if (fd_ >= 0) ::close(fd_);
  map_ = nullptr;
  fd_ = -1;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(header_.tensors, name, &TensorInfo::name);
  return found == header_.tensors.end() ? nullptr : &*found;
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorInfo& tensor) const {
  return file_bytes().subspan(static_cast<std::size_t>(header_.data_offset + tensor.begin),
                              static_cast<std::size_t>(tensor.end - tensor.begin));
}

std::span<const std::byte> SafetensorsFile::file_bytes() const {
  return {map_, size_};
}

Result<void> SafetensorsFile::check_unchanged() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return system_error("examine", path_);
  if (static_cast<std::size_t>(status.st_size) != size_) {
    return schema::fail(ErrorCode::io, path_.string() +
                                           " changed its size while it was read; write captures under "
                                           "another name and rename them when they are complete");
  }
  return {};
}

}  // namespace driftgate::gpu
