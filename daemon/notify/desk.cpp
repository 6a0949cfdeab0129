#include "daemon/notify/desk.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schema/failf.hpp"
#include "schema/json.hpp"

namespace driftgate::notify {
namespace {

using nlohmann::json;

class StoredDesk final : public Desk {
 public:
  StoredDesk(store::Store& store, std::vector<EndpointSettings> endpoints,
             std::function<std::int64_t()> now_us, std::function<void()> wake)
      : store_(store), endpoints_(std::move(endpoints)), now_us_(std::move(now_us)), wake_(std::move(wake)) {}

  schema::Result<std::string> list() override {
    json items = json::array();
    for (const auto& endpoint : endpoints_) {
      auto item = TRY(view(endpoint));
      items.push_back(std::move(item));
    }
    return schema::canonical_json(json{{"items", std::move(items)}, {"next", nullptr}});
  }

  schema::Result<std::string> test(const std::string& actor, const std::string& name) override {
    const auto endpoint = TRY(find(name));
    const auto now = now_us_();
    const auto data = schema::canonical_json(json{{"asked_by", actor}, {"endpoint", name}, {"time_us", now}});
    const store::OutboxRow row{.endpoint = name,
                               .message = message_id(data),
                               .type = std::string(kTestEvent),
                               .payload = payload_of(kTestEvent, now, data),
                               .due_us = now,
                               .created_us = now};
    return changed(*endpoint, [&](store::Tx& tx) -> schema::Result<void> {
      auto known = TRY(store::find_webhook(tx, name));
      if (known && known->disabled_us)
        return schema::failf(schema::ErrorCode::conflict, "webhook '{}' is disabled: {}; enable it first",
                             name, known->reason);
      return store::put_outbox(tx, row);
    });
  }

  schema::Result<std::string> enable(const std::string& name) override {
    const auto endpoint = TRY(find(name));
    return changed(*endpoint, [&](store::Tx& tx) { return store::enable_webhook(tx, name); });
  }

 private:
  schema::Result<const EndpointSettings*> find(const std::string& name) const {
    const auto found = std::ranges::find(endpoints_, name, &EndpointSettings::name);
    if (found != endpoints_.end()) return &*found;
    return schema::failf(schema::ErrorCode::not_found, "there is no webhook '{}' in the settings", name);
  }

  template <typename Change>
  schema::Result<std::string> changed(const EndpointSettings& endpoint, Change change) {
    TRY(store_.write("change webhook", change));
    wake_();
    auto now = TRY(view(endpoint));
    return schema::canonical_json(now);
  }

  schema::Result<json> view(const EndpointSettings& endpoint) {
    return store_.read([&](store::Reader& reader) -> schema::Result<json> {
      auto counts = TRY(store::count_outbox(reader, endpoint.name));
      auto known = TRY(store::find_webhook(reader, endpoint.name));
      json disabled = nullptr;
      if (known && known->disabled_us)
        disabled = {{"since_us", *known->disabled_us}, {"reason", known->reason}};
      return json{
          {"name", endpoint.name},           {"url", endpoint.url},       {"events", endpoint.events},
          {"disabled", std::move(disabled)}, {"pending", counts.pending}, {"delivered", counts.delivered},
          {"failed", counts.failed},         {"dropped", counts.dropped}, {"last_error", counts.last_error}};
    });
  }

  store::Store& store_;
  const std::vector<EndpointSettings> endpoints_;
  const std::function<std::int64_t()> now_us_;
  const std::function<void()> wake_;
};

}  // namespace

std::unique_ptr<Desk> stored_desk(store::Store& store, std::vector<EndpointSettings> endpoints,
                                  std::function<std::int64_t()> now_us, std::function<void()> wake) {
  return std::make_unique<StoredDesk>(store, std::move(endpoints), std::move(now_us), std::move(wake));
}

}  // namespace driftgate::notify
