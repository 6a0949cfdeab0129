#include "gpu/backend/plugin_library.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace driftgate::gpu {

namespace {

/// The library of this name beside the program, or beside the library that this code is in; otherwise the
/// name.
std::string found_beside(const std::string& name) {
  if (name.contains('/')) return name;
  std::error_code ignored;
  std::filesystem::path folders[] = {std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path(),
                                     {}};
  static const char kHere = 0;
  if (Dl_info info{}; ::dladdr(&kHere, &info) != 0 && info.dli_fname != nullptr)
    folders[1] = std::filesystem::path(info.dli_fname).parent_path();
  for (const auto& folder : folders) {
    if (!folder.empty() && std::filesystem::exists(folder / name, ignored)) return folder / name;
  }
  return name;
}

}  // namespace

schema::Result<PluginLibrary> PluginLibrary::open(const std::string& name) {
  // NODELETE: MPI and NCCL leave threads and exit handlers behind, which run code of the library.
  void* handle = ::dlopen(found_beside(name).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return schema::fail(schema::ErrorCode::unavailable, reason == nullptr ? "no reason given" : reason);
  }
  return PluginLibrary(std::shared_ptr<void>(handle, [](void* open) { ::dlclose(open); }));
}

void* PluginLibrary::symbol(const char* name) const {
  return ::dlsym(handle_.get(), name);
}

}  // namespace driftgate::gpu
