#pragma once

#include <memory>
#include <string>

#include "schema/error.hpp"

namespace driftgate::gpu {

/// A shared library, loaded as long as this object lives.
class PluginLibrary {
 public:
  /// Searches for the library beside the program, then along the search path of the loader. Errors:
  /// unavailable, with the reason of the loader.
  [[nodiscard]] static schema::Result<PluginLibrary> open(const std::string& name);
  /// The address of a symbol; null when there is none.
  [[nodiscard]] void* symbol(const char* name) const;

 private:
  explicit PluginLibrary(std::shared_ptr<void> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<void> handle_;
};

}  // namespace driftgate::gpu
