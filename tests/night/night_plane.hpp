#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/route/control/driver.hpp"

namespace driftgate::night {

/// A data plane in simulated time. Like the router it outlives the daemon: its routes and the numbers of its
/// windows are in a file. Requests come with new keys.
class NightPlane final : public route::Driver {
 public:
  /// What an earlier process left below `folder` is held again.
  [[nodiscard]] static schema::Result<std::unique_ptr<NightPlane>> open(const std::filesystem::path& folder);

  [[nodiscard]] route::Capabilities capabilities() const override;
  schema::Result<void> apply(const route::ModelRoute& route) override;
  schema::Result<std::vector<route::ObservedRoute>> observe() override;
  schema::Result<void> heartbeat() override { return {}; }
  schema::Result<std::vector<route::Window>> windows(const route::WindowPosition& after,
                                                     std::size_t limit) override;
  schema::Result<void> acknowledge(const route::WindowPosition& position) override;
  schema::Result<route::HealthReport> health(const route::WindowPosition& after) override;
  schema::Result<std::string> spool_path(const std::string& stage_key) override;
  schema::Result<void> drop_spool(const std::string&) override { return {}; }

  /// Closes a window of each model that has a candidate, which fails every third request of `failing_models`.
  void serve(std::int64_t now_us, const std::vector<std::string>& failing_models);

 private:
  explicit NightPlane(std::filesystem::path file) : file_(std::move(file)) {}
  void save() const;

  const std::filesystem::path file_;
  std::mutex mutex_;
  std::map<std::string, route::ModelRoute> routes_;
  std::vector<route::Window> closed_;
  std::map<std::string, std::uint64_t> last_number_, read_number_;  ///< by model
  std::uint64_t next_number_ = 1, next_order_ = 1;
};

}  // namespace driftgate::night
