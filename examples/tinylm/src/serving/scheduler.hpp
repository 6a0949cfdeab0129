#pragma once
/// Continuous batching: sequences enter and leave between the steps of a running batch.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "examples/tinylm/src/engine.hpp"
#include "examples/tinylm/src/serving/request.hpp"

namespace tinylm {

struct TokenResult {
  std::int32_t token = 0;
  double logprob = 0;                                ///< of the raw distribution, before the temperature
  bool known = false;                                ///< false for a first token, which has no context
  std::vector<std::pair<std::int32_t, double>> top;  ///< largest first
};

enum class Finish { none, length, stop, cancelled };

/// One request in the scheduler: written by one worker and read by the session.
class Generation {
 public:
  explicit Generation(CompletionRequest wanted, std::uint64_t fallback_seed);

  /// Waits until more than `have` tokens exist or the generation has ended; returns the tokens after
  /// `have` and how it ended (none while it runs).
  std::pair<std::vector<TokenResult>, Finish> wait_beyond(std::size_t have);
  /// Waits for the end.
  std::pair<std::vector<TokenResult>, Finish> wait_all();
  /// Results of the prompt's tokens; valid once a token exists or the generation has ended.
  const std::vector<TokenResult>& prompt_results() const { return prompt_results_; }
  void cancel();
  const CompletionRequest& request() const { return request_; }

 private:
  friend class Scheduler;
  bool scores_prompt() const { return request_.echo && request_.logprobs.has_value(); }
  void take_logits(std::span<const float> logits, std::size_t stride, std::size_t vocabulary);
  void finish(Finish how);

  CompletionRequest request_;
  std::mt19937_64 random_;
  std::unique_ptr<Cache> cache_;
  std::vector<std::int32_t> pending_;  ///< tokens of the next step
  std::string text_;                   ///< bytes generated, for stop strings
  std::vector<TokenResult> prompt_results_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenResult> tokens_;
  Finish finish_ = Finish::none;
  bool cancelled_ = false;
};

struct SchedulerLimits {
  std::size_t max_batch = 16;   ///< sequences in a step
  std::size_t max_queue = 512;  ///< waiting requests; more are refused
};

class Scheduler {
 public:
  /// One worker thread for each engine.
  Scheduler(std::vector<Engine> engines, SchedulerLimits limits);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Null when the queue is full or the scheduler is stopping.
  std::shared_ptr<Generation> submit(CompletionRequest request);
  /// Cancels all waiting and running requests and joins the workers.
  void stop();

 private:
  void work(Engine& engine);
  /// Waits for work; returns false when the worker must end.
  bool admit(std::vector<std::shared_ptr<Generation>>& active, const Config& config);
  static void step(Engine& engine, std::vector<std::shared_ptr<Generation>>& active);

  SchedulerLimits limits_;
  std::vector<Engine> engines_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Generation>> queue_;
  std::uint64_t submitted_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> workers_;
};

}  // namespace tinylm
