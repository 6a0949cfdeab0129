#include "gpu/backend/plugin_library.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace driftgate::gpu {

schema::Result<PluginLibrary> PluginLibrary::open(const std::string& name) {
  std::error_code ignored;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / name;
  const bool found = !name.contains('/') && std::filesystem::exists(beside, ignored);
  // NODELETE: MPI and NCCL leave threads and exit handlers behind, which run code of the library.
  void* handle = ::dlopen(found ? beside.c_str() : name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
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
