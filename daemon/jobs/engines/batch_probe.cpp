#include "daemon/jobs/engines/batch_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/shadow_pairs.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using Answers = std::vector<std::optional<Generated>>;

constexpr std::size_t kMaxFailedInARow = 20;  ///< stops asking an engine that is gone
constexpr std::size_t kMaxNotes = 5;

/// One pass over the requests with a number of them in flight.
class Pass {
 public:
  Pass(const std::string& model, const std::vector<GreedyRequest>& requests, std::uint64_t seed,
       std::atomic<bool>& cold, std::function<void()> answered)
      : model_(model),
        requests_(requests),
        cold_(cold),
        salt_(std::random_device()()),
        answered_(std::move(answered)),
        order_(requests.size()),
        answers_(requests.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::mt19937_64 random(seed);
    std::ranges::shuffle(order_, random);
  }

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
  /// Without the prompt cache as long as the engine takes the members that switch it off: `cache_prompt`
  /// (llama.cpp), `cache_salt` (vLLM), of which no two requests have the same.
  schema::Result<Generated> ask(net::HttpClient& client, std::size_t i) {
    if (cold_) {
      const json extra{{"cache_prompt", false}, {"cache_salt", fmt::format("{:08x}-{}", salt_, i)}};
      auto answer = greedy_answer(client, model_, requests_[i], extra);
      if (answer || answer.error().code != ErrorCode::invalid_argument) return answer;
    }
    auto answer = greedy_answer(client, model_, requests_[i], json::object());
    if (answer) cold_ = false;  // it was the members that the engine refused
    return answer;
  }

  void work(net::HttpClient& client) {
    for (std::size_t n = next_++; n < order_.size(); n = next_++) {
      if (failed_in_a_row_ >= kMaxFailedInARow) return;
      const std::size_t i = order_[n];
      auto answer = ask(client, i);
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
  const std::vector<GreedyRequest>& requests_;
  std::atomic<bool>& cold_;
  const std::uint32_t salt_;
  std::function<void()> answered_;
  std::vector<std::size_t> order_;
  Answers answers_;
  std::vector<std::string> notes_;
  std::mutex mutex_;
  std::atomic<std::size_t> next_ = 0, failed_in_a_row_ = 0;
};

bool differ(const Generated& a, const Generated& b) {
  return !a.ids.empty() && !b.ids.empty() ? a.ids != b.ids : a.text != b.text;
}

schema::Result<std::vector<net::HttpClient>> clients_of(const EngineAddress& engine,
                                                        const net::OutgoingPolicy& policy,
                                                        std::size_t count) {
  std::vector<net::HttpClient> clients;
  for (std::size_t i = 0; i < count; ++i) {
    auto client = TRY(engine_http(engine, policy, true));
    clients.push_back(std::move(client));
  }
  return clients;
}

}  // namespace

schema::Result<BatchProbe> probe_batches(const EngineAddress& engine, const std::string& model,
                                         const std::vector<GreedyRequest>& requests, std::uint64_t seed,
                                         const net::OutgoingPolicy& policy,
                                         const std::function<void(std::size_t, std::size_t)>& report) {
  std::size_t done = 0;
  const auto answered = [&] { report(++done, 2 * requests.size()); };
  BatchProbe probe;
  std::atomic<bool> cold = true;
  std::vector<Answers> passes;
  for (const std::size_t in_flight : {std::size_t{1}, kProbeBatch}) {
    auto clients = TRY(clients_of(engine, policy, in_flight));
    Pass pass(model, requests, seed + in_flight, cold, answered);
    passes.push_back(pass.run(std::move(clients)));
    for (const std::string& note : pass.notes()) probe.notes.push_back("batch invariance: " + note);
  }
  if (!cold) {
    probe.notes.push_back(
        "batch invariance: the engine refused cache_prompt and cache_salt, so answers in the batch may have "
        "come "
        "from a warm prompt cache");
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto &alone = passes[0][i], &together = passes[1][i];
    const bool both = alone && together;
    probe.variant.push_back(both ? std::optional(differ(*alone, *together)) : std::nullopt);
    probe.agreement.push_back(both ? greedy_agreement(*alone, *together) : std::nullopt);
  }
  return probe;
}

}  // namespace driftgate::jobs
