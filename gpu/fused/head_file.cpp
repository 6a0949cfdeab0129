#include "gpu/fused/head_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "gpu/capture/capture.hpp"
#include "gpu/capture/capture_modes.hpp"

namespace driftgate::gpu::fused {

using schema::ErrorCode;
using schema::Result;

namespace {

/// A file descriptor that is closed by its destructor.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int value) : fd(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

int open_beneath(int folder, const std::string& path) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a FIFO must not block the open
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how)));
}

/// Opens `relative` below `folder`; the operating system refuses a link that leads out of the folder.
Result<HeadFile> open_named(const SafetensorsFile& capture, const std::string& relative) {
  const std::filesystem::path parent = capture.path().parent_path();
  const std::filesystem::path folder = parent.empty() ? std::filesystem::path(".") : parent;
  const std::string name = (folder / relative).string();
  const Descriptor root(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.fd < 0) {
    return schema::fail(ErrorCode::io,
                        fmt::format("cannot open the folder {}: {}", folder.string(), std::strerror(errno)));
  }
  const Descriptor file(open_beneath(root.fd, relative));
  if (file.fd < 0) {
    const int code = errno;
    if (code == EXDEV || code == ELOOP) {
      return invalid(capture, "metadata lm_head leads out of the folder of the capture through a link");
    }
    return schema::fail(code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                        fmt::format("cannot open {}, the head that {} names: {}; give it with --lm-head FILE",
                                    name, capture.path().string(), std::strerror(code)));
  }
  auto opened = SafetensorsFile::open(fmt::format("/proc/self/fd/{}", file.fd));
  if (!opened) return schema::wrap(opened.error(), "the head " + name);
  return HeadFile{std::move(*opened), name};
}

Result<HeadFile> open_given(const std::filesystem::path& path) {
  auto opened = SafetensorsFile::open(path);
  if (!opened) return schema::wrap(opened.error(), "the head " + path.string());
  return HeadFile{std::move(*opened), path.string()};
}

Result<std::vector<std::filesystem::path>> checkpoint_files(const std::filesystem::path& checkpoint) {
  std::error_code error;
  if (!std::filesystem::is_directory(checkpoint, error)) return std::vector{checkpoint};
  std::vector<std::filesystem::path> files;
  for (auto it = std::filesystem::directory_iterator(checkpoint, error);
       !error && it != std::filesystem::end(it); it.increment(error)) {
    if (it->path().extension() == ".safetensors") files.push_back(it->path());
    if (files.size() > kMaxCaptureFiles) {
      return schema::fail(ErrorCode::limit_exceeded,
                          "the checkpoint " + checkpoint.string() + " holds more than 10,000 files");
    }
  }
  if (error)
    return schema::fail(ErrorCode::io, "cannot list " + checkpoint.string() + ": " + error.message());
  std::ranges::sort(files);
  return files;
}

Result<HeadFile> open_of_checkpoint(const SafetensorsFile& capture, const std::string& tensor,
                                    const std::filesystem::path& checkpoint) {
  if (checkpoint.empty()) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("{} holds hidden states whose head is the tensor '{}' of the checkpoint: "
                                    "give it with --checkpoint DIR or --lm-head FILE",
                                    capture.path().string(), tensor));
  }
  auto files = TRY(checkpoint_files(checkpoint));
  for (const auto& path : files) {
    auto opened = open_given(path);
    if (!opened) return opened;
    if (opened->file.find(tensor) != nullptr) return opened;
  }
  return schema::fail(ErrorCode::not_found,
                      fmt::format("the checkpoint {} has no tensor '{}', the head that {} names",
                                  checkpoint.string(), tensor, capture.path().string()));
}

}  // namespace

Result<HeadName> parse_head_name(const SafetensorsFile& capture) {
  const auto found = capture.header().metadata.find("lm_head");
  if (found == capture.header().metadata.end()) return HeadName{"", kDefaultHeadTensor};
  const std::string& text = found->second;
  const std::size_t hash = text.rfind('#');
  HeadName out{hash == std::string::npos ? "" : text.substr(0, hash),
               hash == std::string::npos ? text : text.substr(hash + 1)};
  const auto refuse = [&](const char* why) {
    return invalid(capture, fmt::format("metadata lm_head '{}' {}", text, why));
  };
  if (out.tensor.empty()) return refuse("names no tensor; TENSOR or FILE#TENSOR is needed");
  if (hash == 0) return refuse("names no file before '#'");
  if (out.file.size() > kMaxHeadPathBytes) return refuse("is longer than 1,024 bytes");
  if (out.file.find('\0') != std::string::npos) return refuse("holds a NUL");
  if (out.file.starts_with('/')) return refuse("is an absolute path; name a file in the capture's folder");
  for (std::size_t at = 0; !out.file.empty() && at <= out.file.size();) {
    const std::size_t end = std::min(out.file.find('/', at), out.file.size());
    const std::string part = out.file.substr(at, end - at);
    if (part == "..") return refuse("leads out of the folder of the capture through '..'");
    if (part.empty() || part == ".") return refuse("has an empty part");
    at = end + 1;
  }
  return out;
}

Result<HeadFile> open_head_file(const SafetensorsFile& capture, const HeadName& name,
                                const HeadSource& source) {
  if (!source.lm_head.empty()) return open_given(source.lm_head);
  if (!name.file.empty()) return open_named(capture, name.file);
  return open_of_checkpoint(capture, name.tensor, source.checkpoint);
}

}  // namespace driftgate::gpu::fused
