#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/pipeline/figures/model_figures.hpp"
#include "daemon/pipeline/requests/request.hpp"
#include "schema/error.hpp"

namespace driftgate::pipeline {

/// A resource as JSON text. `id` is its name or id, `seq` the evidence sequence number of its last
/// change (an ETag can be made of it), `created` false when an equal registration existed already.
struct View {
  std::string id;
  std::uint64_t seq = 0;
  bool created = false;
  std::string json;
};

/// A page of views, in creation order (newest first for promotions). `next` is empty on the last page.
struct Page {
  std::vector<View> items;
  std::string next;
};

struct PageRequest {
  std::string after;       ///< `next` of the page before; empty = first page
  std::size_t limit = 50;  ///< at most kMaxPageItems
};
inline constexpr std::size_t kMaxPageItems = 500;

/// Which promotions, and in which order; every given filter must match.
struct PromotionFilter {
  std::string model{};      ///< empty = all
  std::string state{};      ///< state name; empty = all
  std::string requester{};  ///< empty = all
  std::string contract{};   ///< digest or name; empty = all
  std::string text{};  ///< within id, model, engine or the contract's name, whatever the case; empty = all
  bool open = false;   ///< only those that have not ended
  bool needs = false;  ///< only those that wait for people
  std::string
      order{};  ///< "newest", "oldest" or "updated" (by their last change, newest first); empty = newest
};
inline constexpr std::size_t kMaxSearchBytes = 200;

/// Which jobs; every given filter must match.
struct JobFilter {
  std::string state{};  ///< pending, running, done, failed or cancelled; empty = all
  std::string model{}, promotion{};
  std::string kind{};  ///< drift, capture or rescore
};
/// Part of what the programs of a job have printed.
struct JobLogRequest {
  std::string job{};
  std::string file{};                     ///< one of the view's `logs`; empty = the newest
  std::optional<std::uint64_t> offset{};  ///< bytes; absent: the end of the file
  std::size_t limit = 65'536;             ///< bytes, at most kMaxJobLogBytes
};
inline constexpr std::size_t kMaxJobLogBytes = 262'144;
/// By runner and by where they stand.
using JobCounts = std::map<std::pair<std::string, std::string>, std::uint64_t>;

/// A person's order about a promotion. From a text: that reason, whatever the promotion is like now.
struct Order {
  // NOLINTNEXTLINE(google-explicit-constructor): a reason alone is an order
  Order(std::string why) : reason(std::move(why)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Order(const char* why) : reason(why) {}
  Order(std::string why, std::string shown) : reason(std::move(why)), evidence_shown(std::move(shown)) {}

  std::string reason;
  /// The `evidence_shown` of the view that was read: `conflict` when it is another now. Empty: not checked.
  std::string evidence_shown{};
};

/// One screen about all models.
struct Overview {
  Page page;                    ///< by model
  std::string counts;           ///< {"models", "open", "need_people", "holds", "alarms"}, of the whole daemon
  std::uint64_t tree_size = 0;  ///< of the log
};

/// One committed evidence entry, published after its COMMIT.
struct Event {
  std::uint64_t seq = 0;
  std::string kind;
  std::string model, promotion;  ///< as in the entry's subject; may be empty
  std::string json;              ///< the entry's exact bytes
};

/// Ends its subscription when destroyed. No callback runs after the destructor returned.
class Subscription {
 public:
  virtual ~Subscription() = default;
};

/// What `wait` found.
struct Outcome {
  std::string state;  ///< "succeeded", "rejected", … or "running", …
  bool terminal = false;
};

/// Figures for /metrics.
struct ServiceFigures {
  std::map<std::string, std::uint64_t> promotions_by_state{};
  JobCounts jobs{};  ///< that have not ended
  std::uint64_t models = 0, queue_length = 0, jobs_running = 0, transitions = 0, windows = 0;
  std::uint64_t others = 0, others_failed = 0;  ///< requests in these windows that are not judged
  std::uint64_t guards = 0;            ///< armed
  std::uint64_t guards_alarming = 0;   ///< of these
  std::uint64_t guards_unread = 0;     ///< could not be read
  std::uint64_t guards_rescoring = 0;  ///< have live answers kept, to be scored again
  std::uint64_t guards_not_rescoring = 0;  ///< are to, and do not now
  std::int64_t telemetry_age_ms = -1;  ///< of the newest window; -1 = none seen
  bool route_agrees = false;           ///< every model's route was read back as desired
  std::int64_t seen_age_ms = -1;       ///< since the loop ended a round; -1 = it has not yet
  LiveSnapshot live{};
  std::vector<std::string> held{};  ///< models that are on hold, by name

  /// Models of which a version was withdrawn and this could not be recorded yet, by name.
  std::vector<std::string> unrecorded{};
};

/// The promotion pipeline as the API and the CLI see it. Every call is safe from any thread. Calls that
/// change something block until their transaction is committed (and, for abort and rollback, until weight
/// 0 was applied and read back or that failed); `register_engine` also blocks on the engine's probe,
/// at most about 30 s. `actor` is the name of the authenticated principal; scopes are checked by the caller,
/// except that an approver must differ from the requester, which is checked here.
///
/// Errors: `invalid_document`, `invalid_argument`, `not_found`, `already_exists`, `conflict` (the state
/// does not allow it; the message says what does), `forbidden`, `unavailable` (queue full or stopping).
class Service {
 public:
  virtual ~Service() = default;

  /// Parses and registers a contract (YAML or JSON). The same document again gives created = false.
  /// `invalid_document`: the message has one fault a line, "NAME:line:column: …".
  virtual schema::Result<View> register_contract(const std::string& actor, std::string_view text,
                                                 const std::string& name) = 0;
  /// {"name": …, "engine": …, "dtype": …, …}: a flat or nested JSON object; identity = digest of its RFC
  /// 8785.
  virtual schema::Result<View> register_kernel(const std::string& actor, std::string_view json) = 0;
  /// Probes the engine and keeps what it can do as evidence. Registering a name again with other
  /// contents makes a new version of the engine when no promotion uses it, else `conflict`.
  virtual schema::Result<View> register_engine(const std::string& actor, const EngineRequest& request) = 0;
  /// Installs a model's first version at 100% (evidence `model_bootstrapped`, no claim of conformity).
  virtual schema::Result<View> create_model(const std::string& actor, const ModelRequest& request) = 0;

  /// What a promotion would do: stages, clauses, windows, locks, needed samples. Changes nothing.
  virtual schema::Result<View> plan_promotion(const std::string& actor, const PromotionRequest& request) = 0;
  virtual schema::Result<View> request_promotion(const std::string& actor,
                                                 const PromotionRequest& request) = 0;
  /// `evidence_digest` is the `approval.evidence_digest` of the promotion's view that was read.
  virtual schema::Result<View> approve(const std::string& actor, const std::string& promotion,
                                       const std::string& evidence_digest, const std::string& reason) = 0;
  /// One person's waiver of an inconclusive clause ("family.id"); `evidence_digest` is the
  /// `waiver.evidence_digest` of the view that was read. With the second person's for every clause that
  /// keeps the stage from passing, the promotion goes past it.
  virtual schema::Result<View> waive(const std::string& actor, const std::string& promotion,
                                     const std::string& clause, const std::string& evidence_digest,
                                     const std::string& reason) = 0;
  virtual schema::Result<View> abort(const std::string& actor, const std::string& promotion,
                                     const Order& order) = 0;
  /// While the promotion runs: 0% traffic, rejected, hold set. After it succeeded: the version before
  /// it is restored as incumbent and a hold is set.
  virtual schema::Result<View> rollback(const std::string& actor, const std::string& promotion,
                                        const Order& order) = 0;
  virtual schema::Result<View> pause(const std::string& actor, const std::string& promotion,
                                     const Order& order) = 0;
  virtual schema::Result<View> resume(const std::string& actor, const std::string& promotion,
                                      const Order& order) = 0;
  /// Lifts the hold that a rollback set on a model (scope: operator).
  virtual schema::Result<View> lift_hold(const std::string& actor, const std::string& model,
                                         const std::string& reason) = 0;

  /// Lets a checkpoint and kernel that were blocked be promoted again under the contract (scope: operator).
  virtual schema::Result<View> lift_block(const std::string& actor, const std::string& block,
                                          const std::string& reason) = 0;

  /// Asks for the end of a job; its promotion then ends as errored, with a reason that names `actor`. Asked
  /// again, it changes nothing. `conflict` when the job has ended.
  virtual schema::Result<View> cancel_job(const std::string& actor, const std::string& job,
                                          const std::string& reason) = 0;
  /// {"id", "promotion", "model", "stage", "attempt", "name", "kind", "state", "place": {"runner", "remote",
  ///  "state": "waiting" | "queued" | "running" | "ended", "reason", "nodes"} | null, "progress": {"done",
  ///  "total", "unit", "text"} | null, "cancel": {"by", "reason", "since_us"} | null, "created_us",
  ///  "ended_us", "error": {"code", "message"} | null, "digests": {name: digest}, "wall_ms", "logs": names of
  ///  what `job_log` reads, "folder": `with_folder`}
  virtual schema::Result<View> job(const std::string& id, bool with_folder) = 0;
  /// As `job`, without `logs` and `folder`; newest first.
  virtual schema::Result<Page> jobs(const JobFilter& filter, const PageRequest& page) = 0;
  /// {"job", "file", "files", "from", "next", "size", "text", "ended"}: the bytes from `from` to before
  /// `next`. Nothing is left of it once the job's stage has ended.
  virtual schema::Result<View> job_log(const JobLogRequest& request) = 0;

  virtual schema::Result<View> contract(const std::string& digest_or_name) = 0;
  virtual schema::Result<View> kernel(const std::string& name) = 0;
  virtual schema::Result<View> engine(const std::string& name) = 0;
  /// {"name", "incumbent": {"version", "engine", "kernel", "url", "checkpoint"}, "promotion": id | null,
  ///  "hold": {"reason", "since_us", "promotion"} | null, "route": {"desired": {…}, "observed": {…},
  ///  "agree"}, "guard": {"id", "promotion", "version", "armed", "since_us", "ended_us", "reason", "alarms",
  ///  "mean_time_between_false_alarms_ms", "watches": [{"clause", "slice", "limit", "seen", "events",
  ///  "value", "needed", "alarming", "message"}], "failures_cluster", "probes": {…} | null, "identity": {…},
  ///  "rescoring": {…} | null, "orders": {…}} | null}: its newest guard
  virtual schema::Result<View> model(const std::string& name) = 0;
  /// {"id", "model", "engine", "contract", "contract_name", "requester", "state", "stage", "attempt",
  ///  "traffic": "never_exposed" | "reverted" | "live", "reason", "created_us", "updated_us",
  ///  "candidate", "baseline", "request", "stages": [{"stage", "attempt", "state", "verdict", "started_us",
  ///  "ended_us", "summary", "report_digest", "progress": {"done", "total", "unit", "text", "job",
  ///  "place"}}], "canary": {"step", "steps", "share_bp", "phase", "keys", "failures", "e_value", …} | null,
  ///  "approval": {"needed", "given": [{"who", "given_us"}], "step", "evidence_digest", "deadline_us"} |
  ///  null, "waiver": {"needed", "evidence_digest", "deadline_us", "clauses": [{"clause", "given": [{"who",
  ///  "given_us"}]}]} | null, "paused", "frozen", "outcome", "why", "next", "needs": [{"action", "scope",
  ///  "text"}] (standing.hpp), "share_bp": the candidate's share as it was applied last, "evidence_shown":
  ///  digest of what a person decides on (shown.hpp)}
  virtual schema::Result<View> promotion(const std::string& id) = 0;
  /// A stage's report (verdicts, bounds, slices, worst rows) as JSON; the newest attempt.
  virtual schema::Result<View> report(const std::string& promotion, const std::string& stage) = 0;
  /// The promotion's stored evidence decided again under the contract `text` (what_if.hpp); nothing runs and
  /// nothing changes. `invalid_document` as in register_contract; `unavailable` once `stop` is requested.
  virtual schema::Result<View> what_if(const std::string& promotion, std::string_view text,
                                       const std::stop_token& stop = {}) = 0;

  virtual schema::Result<Page> contracts(const PageRequest& page) = 0;
  virtual schema::Result<Page> kernels(const PageRequest& page) = 0;
  virtual schema::Result<Page> engines(const PageRequest& page) = 0;
  virtual schema::Result<Page> models(const PageRequest& page) = 0;
  /// {"id", "checkpoint", "kernel", "contract", "promotion", "reason", "by", "since_us", "lifted": {"by",
  /// "reason", "since_us"} | null}
  virtual schema::Result<Page> blocks(const PageRequest& page) = 0;
  /// As `promotion`, without `summary.open` of the stages. `invalid_argument` for a filter that makes no
  /// sense.
  virtual schema::Result<Page> promotions(const PromotionFilter& filter, const PageRequest& page) = 0;
  /// The item of one promotion, as in `promotions`.
  virtual schema::Result<View> promotion_item(const std::string& id) = 0;
  /// The items of every promotion that has not ended, by id, of one snapshot.
  virtual schema::Result<std::vector<View>> open_items() = 0;
  /// A page of models by name, `text` within the name: {"model", "incumbent": {…} | null, "hold": {"reason",
  /// "by", "since_us", "promotion"} | null, "guard": {"armed", "alarms"} | null, "route_agrees", "promotion":
  /// the item of the one that holds the model, else of the queued one, else null, "last": {"id", "state",
  /// "ended_us", "why"} | null, "schedules": [{"name", "next_us", "paused", "last": {"fire_us", "outcome",
  /// "why", "promotion"} | null}]}
  virtual schema::Result<Overview> overview(const std::string& text, const PageRequest& page) = 0;

  /// Calls `on_event` for every entry that this service commits from now on, in order, on the thread
  /// that committed it: it must return at once (post to your own executor) and not end its subscription.
  /// Entries before are read from evidence.
  virtual std::unique_ptr<Subscription> subscribe(std::function<void(const Event&)> on_event) = 0;
  /// The promotion's state now, for `Prefer: wait` and exit codes.
  virtual schema::Result<Outcome> outcome(const std::string& promotion) = 0;
  virtual ServiceFigures figures() = 0;
};

}  // namespace driftgate::pipeline
