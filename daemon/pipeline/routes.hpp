#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/context.hpp"

namespace driftgate::pipeline {

/// Keeps the data plane at the desired routes.
class Routes {
 public:
  explicit Routes(Context& context) : context_(context) {}
  /// Makes the data plane hold the model's desired route, and records that it was read back. True when it
  /// holds it; else it is tried again later.
  bool ensure_held(const std::string& model);
  /// Looks whether the data plane still holds what is desired: it may have reverted or been restarted.
  void check_held();
  /// Models whose route is to be applied now.
  [[nodiscard]] std::vector<std::string> due() const;
  [[nodiscard]] bool all_held() const;

 private:
  schema::Result<void> record_applied(const std::string& model, const route::ModelRoute& route);

  Context& context_;
};

}  // namespace driftgate::pipeline
