#include "daemon/route/haproxy/slots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/route/table/route_json.hpp"
#include "schema/failf.hpp"

namespace driftgate::route::haproxy {

std::string backend_name(std::size_t number) {
  return fmt::format("driftgate_{}", number);
}

schema::Result<Slots> Slots::load(std::string path, std::size_t count) {
  Slots slots(std::move(path), count);
  std::error_code unknown;
  if (!std::filesystem::exists(slots.path_, unknown)) return slots;
  const auto text = TRY(base::read_file(slots.path_));
  const auto json = parse_json(text);
  const auto unusable = [&] {
    return schema::failf(schema::ErrorCode::corrupt,
                         "{} does not say which backend of HAProxy serves which model; move it away",
                         slots.path_);
  };
  if (!json || !json->is_object()) return unusable();
  for (const auto& [model, backend] : json->items()) {
    if (!backend.is_string()) return unusable();
    slots.backends_[model] = backend.get<std::string>();
  }
  return slots;
}

schema::Result<std::string> Slots::backend_of(const std::string& model) {
  const auto known = backends_.find(model);
  if (known != backends_.end()) return known->second;
  for (std::size_t number = 1; number <= count_; ++number) {
    const auto backend = backend_name(number);
    if (std::ranges::any_of(backends_, [&](const auto& taken) { return taken.second == backend; })) continue;
    auto next = backends_;
    next[model] = backend;
    TRY(base::write_file_durably(path_, dumped(nlohmann::json(next)), 0600));
    backends_ = std::move(next);
    return backend;
  }
  return schema::failf(
      schema::ErrorCode::limit_exceeded,
      "HAProxy has backends for {} models and all are taken: raise haproxy.models, stop the router "
      "(driftgate router-stop), start the daemon again and reload HAProxy",
      count_);
}

}  // namespace driftgate::route::haproxy
