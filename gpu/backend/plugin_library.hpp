#pragma once

#include <memory>
#include <string>

#include "schema/error.hpp"

namespace driftgate::gpu {

/// A shared library that is open as long as this lives.
class PluginLibrary {
 public:
  /// Looked for beside the program and then where the loader looks. unavailable with the loader's reason.
  [[nodiscard]] static schema::Result<PluginLibrary> open(const std::string& name);
  /// Null when there is none of that name.
  [[nodiscard]] void* symbol(const char* name) const;

 private:
  explicit PluginLibrary(std::shared_ptr<void> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<void> handle_;
};

}  // namespace driftgate::gpu
