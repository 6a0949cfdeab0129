#include <fmt/core.h>

#include "daemon/app/application_parts.hpp"
#include "daemon/app/metrics.hpp"
#include "daemon/app/options.hpp"
#include "daemon/app/version.hpp"
#include "daemon/pipeline/people/redact.hpp"

namespace driftgate::app {

api::Context Application::Parts::api_context() {
  const auto requests_per_second = static_cast<double>(settings.http_requests_per_second);
  return {.service = *pipeline,
          .tokens = *tokens,
          .evidence = *evidence,
          .idempotency = *idempotency,
          .now_us = now_us,
          .ready = [this] { return readiness(); },
          .more_metrics = [this] { return metrics(); },
          .log =
              [this](const api::AccessRecord& record) {
                log.debug(fmt::format("{} {} status={} principal={} from={} us={}", record.method,
                                      record.path, record.status, record.principal, record.remote_address,
                                      record.took.count()));
              },
          .requests_per_second = requests_per_second,
          .burst = 2 * requests_per_second,
          .webhooks = webhooks.get(),
          .backup =
              [this](const std::string& name) {
                auto made = backups->make(name);
                looks->backups.look_soon();
                return made;
              },
          .schedules = schedules.get(),
          .recipes = recipes.get(),
          .redact =
              [this](const std::string& actor, const std::string& promotion, const std::string& reason) {
                return pipeline::redact_promotion(*store, actor, promotion, reason, now_us());
              },
          .commits = [this] { return store->stats().commits; },
          .server = {.version = kVersion, .started_us = started_us, .tls = !settings.tls_cert_file.empty()},
          .settings = [this] { return settings_json(settings); },
          .site = &site,
          .insight = insight.get()};
}

std::string Application::Parts::metrics() {
  // The published head first: it is never ahead of a size that is read after it.
  const auto published = heads->published_size();
  const auto size = store->read([](store::Reader& reader) { return evidence::tree_size(reader); });
  return store_metrics(store->stats(), size.value_or(0), published) +
         check_metrics(record_check->progress()) + router_metrics(keeper->figures()) + disk_metrics(*looks) +
         webhook_metrics(*store, webhook_settings(settings)) +
         trace_metrics(traces ? traces->figures() : notify::TraceFigures{});
}

std::vector<api::ReadyCheck> Application::Parts::readiness() {
  const auto router = driver->info();
  const auto readable = store->read([](store::Reader& reader) { return evidence::tree_size(reader); });
  std::vector<api::ReadyCheck> checks{
      {"store", readable.has_value(), readable ? "" : readable.error().describe()},
      {"router", router.has_value(), router ? "" : router.error().describe()},
      record_ready(record_check->progress()),
      withdrawals_ready(pipeline->unrecorded_withdrawals())};
  if (is_behind_haproxy(settings) || is_behind_gateway(settings)) {
    const auto fault = router ? router->plane_fault : std::string("the router does not answer");
    checks.push_back({settings.data_plane, fault.empty(), fault});
  }
  return checks;
}

}  // namespace driftgate::app
