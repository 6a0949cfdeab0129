#include "daemon/jobs/batch_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "daemon/jobs/engine_client.hpp"
#include "daemon/jobs/shadow_pairs.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using Answers = std::vector<std::optional<Generated>>;

constexpr std::size_t kMaxFailedInARow = 20;  ///< stops asking an engine that is gone
constexpr std::size_t kMaxNotes = 5;

schema::Result<Generated> greedy(net::HttpClient& client, const std::string& model,
                                 const std::string& prompt) {
  const json body{{"model", model}, {"prompt", prompt}, {"max_tokens", kProbeTokens}, {"temperature", 0}};
  auto answer = TRY(client.send(engine_post(client, "/v1/completions", body)));
  if (answer.status != 200) {
    return schema::fail(
        ErrorCode::unavailable,
        fmt::format("the engine {} answered {} to a greedy completion", client.base().base(), answer.status));
  }
  route::MirroredPair::Side side;
  side.body = std::move(answer.body);
  auto generated = generated_of(side);
  if (generated.has_choice) return generated;
  return schema::fail(
      ErrorCode::invalid_document,
      fmt::format("the engine {} answered a greedy completion without a choice", client.base().base()));
}

/// One pass over the prompts with a number of requests in flight.
class Pass {
 public:
  Pass(const std::string& model, const std::vector<std::string>& prompts, std::function<void()> answered)
      : model_(model), prompts_(prompts), answered_(std::move(answered)), answers_(prompts.size()) {}

  Answers run(std::vector<net::HttpClient> clients) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < clients.size(); ++i)
      threads.emplace_back([this, &client = clients[i]] { work(client); });
    work(clients.front());
    threads.clear();
    return std::move(answers_);
  }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  void work(net::HttpClient& client) {
    for (std::size_t i = next_++; i < prompts_.size(); i = next_++) {
      if (failed_in_a_row_ >= kMaxFailedInARow) return;
      auto answer = greedy(client, model_, prompts_[i]);
      const std::scoped_lock lock(mutex_);
      answered_();
      if (answer) {
        failed_in_a_row_ = 0;
        answers_[i] = std::move(*answer);
      } else {
        ++failed_in_a_row_;
        const std::string why = answer.error().describe();
        if (notes_.size() < kMaxNotes && std::ranges::find(notes_, why) == notes_.end())
          notes_.push_back(why);
      }
    }
  }

  const std::string& model_;
  const std::vector<std::string>& prompts_;
  std::function<void()> answered_;
  Answers answers_;
  std::vector<std::string> notes_;
  std::mutex mutex_;
  std::atomic<std::size_t> next_ = 0, failed_in_a_row_ = 0;
};

bool differ(const Generated& a, const Generated& b) {
  return !a.ids.empty() && !b.ids.empty() ? a.ids != b.ids : a.text != b.text;
}

schema::Result<std::vector<net::HttpClient>> clients_of(const std::string& url,
                                                        const net::OutgoingPolicy& policy,
                                                        std::size_t count) {
  std::vector<net::HttpClient> clients;
  for (std::size_t i = 0; i < count; ++i) {
    auto client = TRY(engine_http(url, policy, true));
    clients.push_back(std::move(client));
  }
  return clients;
}

}  // namespace

schema::Result<BatchProbe> probe_batches(const std::string& base_url, const std::string& model,
                                         const std::vector<std::string>& prompts,
                                         const net::OutgoingPolicy& policy,
                                         const std::function<void(std::size_t, std::size_t)>& report) {
  std::size_t done = 0;
  const auto answered = [&] { report(++done, 2 * prompts.size()); };
  BatchProbe probe;
  std::vector<Answers> passes;
  for (const std::size_t in_flight : {std::size_t{1}, kProbeBatch}) {
    auto clients = TRY(clients_of(base_url, policy, in_flight));
    Pass pass(model, prompts, answered);
    passes.push_back(pass.run(std::move(clients)));
    for (const std::string& note : pass.notes()) probe.notes.push_back("batch invariance: " + note);
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto &alone = passes[0][i], &together = passes[1][i];
    probe.variant.push_back(alone && together ? std::optional(differ(*alone, *together)) : std::nullopt);
  }
  return probe;
}

}  // namespace driftgate::jobs
