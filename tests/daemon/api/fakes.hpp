#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/api/ports.hpp"
#include "daemon/notify/desk.hpp"
#include "daemon/pipeline/requests/recipe_admin.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/pipeline/service.hpp"

namespace driftgate::api::test {

inline constexpr const char* kDigest =
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A pipeline in memory: knows one of everything, remembers who asked what.
class FakeService final : public pipeline::Service {
 public:
  using View = pipeline::View;
  using Page = pipeline::Page;
  template <typename T>
  using Result = schema::Result<T>;

  std::vector<std::string> calls;        ///< "actor function argument"
  std::optional<schema::Error> failure;  ///< what every changing call answers, when set
  std::string state = "running";
  int promotions_made = 0;
  pipeline::ServiceFigures figures_now;   ///< beside what `figures` always has
  int looks = 0;                          ///< at all open promotions
  std::vector<std::string> open{"pr-1"};  ///< ids of the open promotions
  pipeline::PromotionFilter filter;       ///< of the newest list
  pipeline::JobFilter job_filter;         ///< of the newest list of jobs
  pipeline::JobLogRequest log_request;    ///< the newest
  std::mutex mutex;

  static std::string promotion_json(const std::string& id, const std::string& state);

  Result<View> register_contract(const std::string& actor, std::string_view text,
                                 const std::string& name) override;
  Result<View> register_kernel(const std::string& actor, std::string_view json) override;
  Result<View> register_engine(const std::string& actor, const pipeline::EngineRequest& request) override;
  Result<View> create_model(const std::string& actor, const pipeline::ModelRequest& request) override;
  Result<View> plan_promotion(const std::string& actor, const pipeline::PromotionRequest& request) override;
  Result<View> request_promotion(const std::string& actor,
                                 const pipeline::PromotionRequest& request) override;
  Result<View> approve(const std::string& actor, const std::string& promotion, const std::string& digest,
                       const std::string& reason) override;
  Result<View> waive(const std::string& actor, const std::string& id, const std::string& clause,
                     const std::string& digest, const std::string& reason) override;
  Result<View> abort(const std::string& actor, const std::string& id, const pipeline::Order& order) override;
  Result<View> rollback(const std::string& actor, const std::string& id,
                        const pipeline::Order& order) override;
  Result<View> pause(const std::string& actor, const std::string& id, const pipeline::Order& order) override;
  Result<View> resume(const std::string& actor, const std::string& id, const pipeline::Order& order) override;
  Result<View> lift_hold(const std::string& actor, const std::string& model,
                         const std::string& reason) override;
  Result<View> lift_block(const std::string& actor, const std::string& block,
                          const std::string& reason) override;
  Result<View> cancel_job(const std::string& actor, const std::string& job,
                          const std::string& reason) override;
  Result<View> job(const std::string& id, bool with_folder) override;
  Result<Page> jobs(const pipeline::JobFilter& filter, const pipeline::PageRequest& page) override;
  Result<View> job_log(const pipeline::JobLogRequest& request) override;
  Result<Page> blocks(const pipeline::PageRequest& page) override;
  Result<View> contract(const std::string& digest_or_name) override;
  Result<View> kernel(const std::string& name) override;
  Result<View> engine(const std::string& name) override;
  Result<View> model(const std::string& name) override;
  Result<View> promotion(const std::string& id) override;
  Result<View> report(const std::string& promotion, const std::string& stage) override;
  Result<View> what_if(const std::string& promotion, std::string_view text,
                       const std::stop_token& stop) override;
  std::function<void(const std::stop_token& stop)> during_what_if;  ///< may block
  Result<Page> contracts(const pipeline::PageRequest& page) override;
  Result<Page> kernels(const pipeline::PageRequest& page) override;
  Result<Page> engines(const pipeline::PageRequest& page) override;
  Result<Page> models(const pipeline::PageRequest& page) override;
  Result<Page> promotions(const pipeline::PromotionFilter& filter,
                          const pipeline::PageRequest& page) override;
  Result<View> promotion_item(const std::string& id) override;
  Result<std::vector<View>> open_items() override;
  Result<pipeline::Overview> overview(const std::string& text, const pipeline::PageRequest& page) override;
  std::unique_ptr<pipeline::Subscription> subscribe(
      std::function<void(const pipeline::Event&)> on_event) override;
  Result<pipeline::Outcome> outcome(const std::string& promotion) override;
  pipeline::ServiceFigures figures() override;

 private:
  Result<View> changed(const std::string& actor, const std::string& what, View view);
};

/// Tokens named by their scopes: the bearer "dg_viewer,promoter" has both, and its session's cookie is
/// "viewer,promoter".
class FakeTokens final : public TokenPort {
 public:
  bool ended = false;  ///< every token was revoked after it came in
  schema::Result<void> check(const auth::Principal& principal) override;
  schema::Result<void> check_in(store::Reader& reader, const auth::Principal& principal) override;
  schema::Result<auth::Principal> authenticate(std::string_view bearer) override;
  schema::Result<auth::Principal> authenticate_session(std::string_view cookie) override;
  schema::Result<auth::OpenedSession> open_session(const auth::Principal& principal) override;
  schema::Result<void> end_session(const auth::Principal& principal) override;
  schema::Result<auth::IssuedToken> issue(const auth::TokenRequest& request) override;
  schema::Result<std::vector<auth::TokenInfo>> list() override;
  schema::Result<void> revoke(std::string_view id, std::string_view revoked_by) override;
};

/// A log of `size` entries, of which every other is about the promotion "pr-1".
class FakeEvidence final : public EvidencePort {
 public:
  std::int64_t size = 10;
  std::vector<std::string> reads;
  int pages = 0;                       ///< read so far
  std::string kind = "state_changed";  ///< of all entries
  static std::string entry_json(std::int64_t seq, const std::string& kind = "state_changed");
  schema::Result<evidence::EntryPage> page(const evidence::EntryFilter& filter) override;
  schema::Result<std::string> entry(std::uint64_t seq) override;
  schema::Result<std::string> checkpoint() override;
  schema::Result<EntryProof> proof(std::uint64_t seq) override;
  schema::Result<ConsistencyProof> consistency(std::uint64_t from, std::uint64_t to) override;
  std::string verifier_key() override;
  schema::Result<void> find_bundle(const evidence::BundleRequest& request) override;
  schema::Result<std::shared_ptr<net::BodySource>> bundle(const evidence::BundleRequest& request) override;
  schema::Result<std::string> served_at(const std::string& model, std::int64_t time_us) override;
  schema::Result<AuditedPopulation> population(const evidence::PopulationRequest& request) override;
  schema::Result<std::string> sample(const evidence::SampleRequest& request) override;
  schema::Result<evidence::EntryPage> exceptions(const evidence::ExceptionsRequest& request) override;
  schema::Result<void> note_read(const std::string& actor, const std::string& what) override;
  void settle_reads() override {}
};

/// One endpoint.
class FakeDesk final : public notify::Desk {
 public:
  Result<std::string> list() override;
  Result<std::string> test(const std::string& actor, const std::string& name) override;
  Result<std::string> enable(const std::string& name) override;
  std::vector<std::string> calls;
};

/// One schedule, "nightly" at revision 3.
class FakeSchedules final : public pipeline::ScheduleAdmin {
 public:
  using View = pipeline::View;
  template <typename T>
  using Result = schema::Result<T>;
  Result<View> create(const std::string& actor, const pipeline::ScheduleRequest& request) override;
  Result<View> replace(const std::string& actor, const pipeline::ScheduleRequest& request,
                       std::uint64_t revision) override;
  Result<View> set_paused(const std::string& actor, const std::string& name, bool paused,
                          std::uint64_t revision) override;
  Result<void> remove(const std::string& actor, const std::string& name, std::uint64_t revision) override;
  Result<View> get(const std::string& name) override;
  Result<pipeline::Page> list(const pipeline::PageRequest& page) override;
  Result<View> next(const std::string& name, std::size_t count) override;
  Result<View> report(std::optional<std::int64_t> since_us, std::optional<std::int64_t> until_us,
                      const std::string& model) override;
};

/// Model "m" has a recipe at revision 3.
class FakeRecipes final : public pipeline::RecipeAdmin {
 public:
  using View = pipeline::View;
  template <typename T>
  using Result = schema::Result<T>;
  Result<View> get(const std::string& model) override;
  Result<View> set(const std::string& actor, const std::string& model, std::string_view json,
                   std::optional<std::uint64_t> revision) override;
  Result<std::vector<std::string>> remove(const std::string& actor, const std::string& model,
                                          std::uint64_t revision) override;
  std::vector<std::string> warnings;  ///< of a deletion
  int gone_after = -1;  ///< so many reads from now on there is no recipe of m; never when negative
  Result<pipeline::PromotionRequest> complete(std::string_view json) override;
};

class FakeIdempotency final : public IdempotencyPort {
 public:
  struct Kept {
    std::string digest;
    store::StoredResponse response;
  };
  std::map<std::string, Kept> kept;
  schema::Result<std::optional<store::StoredResponse>> find(const store::KeyedRequest& request) override;
  schema::Result<void> keep(const store::KeyedRequest& request,
                            const store::StoredResponse& response) override;
  schema::Result<void> replace(const store::KeyedRequest& request,
                               const store::StoredResponse& response) override;
};

}  // namespace driftgate::api::test
