#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "schema/error.hpp"

namespace driftgate::route::haproxy {

/// Which of HAProxy's backends "driftgate_1", "driftgate_2", … serves which model. A model keeps its backend;
/// the file says so to the next router. One thread.
class Slots {
 public:
  /// `corrupt` when the file cannot be what was written.
  static schema::Result<Slots> load(std::string path, std::size_t count);

  /// The model's backend; the first free one for a new model, which is written down before it is used.
  /// `limit_exceeded` when none is left.
  schema::Result<std::string> backend_of(const std::string& model);
  /// Backends by model.
  [[nodiscard]] const std::map<std::string, std::string>& all() const { return backends_; }

 private:
  Slots(std::string path, std::size_t count) : path_(std::move(path)), count_(count) {}

  std::string path_;
  std::size_t count_;
  std::map<std::string, std::string> backends_;
};

/// "driftgate_3"; `number` from 1 on.
[[nodiscard]] std::string backend_name(std::size_t number);

}  // namespace driftgate::route::haproxy
