#include "examples/tinylm/src/serving/scheduler.hpp"

#include <algorithm>

#include "examples/tinylm/src/sampler.hpp"

namespace tinylm {
namespace {

// Limit on prompt tokens in one step, so that a burst of requests does not stall running sequences.
constexpr std::size_t kMaxPrefillTokens = 512;

TokenResult result_of(std::int32_t token, std::span<const float> logits, std::size_t top) {
  const auto logprobs = log_softmax(logits);
  return {token, logprobs[static_cast<std::size_t>(token)], true, top_entries(logprobs, top)};
}

}  // namespace

Generation::Generation(CompletionRequest wanted, std::uint64_t fallback_seed)
    : request_(std::move(wanted)),
      random_(request_.seed.value_or(fallback_seed)),
      pending_(request_.prompt) {}

std::pair<std::vector<TokenResult>, Finish> Generation::wait_beyond(std::size_t have) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return tokens_.size() > have || finish_ != Finish::none; });
  const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(std::min(have, tokens_.size()));
  return {{first, tokens_.end()}, finish_};
}

std::pair<std::vector<TokenResult>, Finish> Generation::wait_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finish_ != Finish::none; });
  return {tokens_, finish_};
}

void Generation::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

void Generation::finish(Finish how) {
  const std::lock_guard lock(mutex_);
  finish_ = how;
  cache_.reset();
  changed_.notify_all();
}

// Reads the logits of the last step of this sequence: after the first step the scores of the prompt, and
// always the next token.
void Generation::take_logits(std::span<const float> logits, std::size_t stride, std::size_t vocabulary) {
  const std::size_t rows = logits.size() / stride;
  if (tokens_.empty() && scores_prompt()) {
    prompt_results_.push_back({request_.prompt[0], 0, false, {}});
    for (std::size_t i = 1; i < request_.prompt.size(); ++i)
      prompt_results_.push_back(
          result_of(request_.prompt[i], logits.subspan((i - 1) * stride, vocabulary), *request_.logprobs));
  }
  if (request_.max_tokens == 0) return finish(Finish::length);
  const auto last = logits.subspan((rows - 1) * stride, vocabulary);
  const std::int32_t token = sample(last, request_.temperature, random_);
  TokenResult result =
      request_.logprobs ? result_of(token, last, *request_.logprobs) : TokenResult{token, 0, false, {}};
  pending_ = {token};
  if (token != kBos) text_ += static_cast<char>(token);
  const bool stopped = token == kBos || std::ranges::any_of(request_.stop, [&](const std::string& stop) {
                         return text_.ends_with(stop);
                       });
  std::unique_lock lock(mutex_);
  tokens_.push_back(std::move(result));
  const bool full = tokens_.size() == request_.max_tokens;
  if (request_.stream) changed_.notify_all();
  lock.unlock();
  if (stopped || full) finish(stopped ? Finish::stop : Finish::length);
}

Scheduler::Scheduler(std::vector<Engine> engines, SchedulerLimits limits)
    : limits_(limits), engines_(std::move(engines)) {
  for (Engine& engine : engines_) workers_.emplace_back([this, &engine] { work(engine); });
}

Scheduler::~Scheduler() {
  stop();
}

std::shared_ptr<Generation> Scheduler::submit(CompletionRequest request) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || queue_.size() >= limits_.max_queue) return nullptr;
  auto generation = std::make_shared<Generation>(std::move(request), submitted_++);
  queue_.push_back(generation);
  wake_.notify_one();
  return generation;
}

void Scheduler::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  workers_.clear();
  for (const auto& generation : queue_) generation->finish(Finish::cancelled);
  queue_.clear();
}

bool Scheduler::admit(std::vector<std::shared_ptr<Generation>>& active, const Config& config) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return stopping_ || !active.empty() || !queue_.empty(); });
  if (stopping_) return false;
  std::size_t entering = 0;
  while (!queue_.empty() && active.size() < limits_.max_batch) {
    const auto& request = queue_.front()->request();
    entering += request.prompt.size();
    if (entering > kMaxPrefillTokens && entering != request.prompt.size()) break;
    active.push_back(std::move(queue_.front()));
    queue_.pop_front();
    active.back()->cache_ = std::make_unique<Cache>(config, request.prompt.size() + request.max_tokens);
  }
  return true;
}

void Scheduler::step(Engine& engine, std::vector<std::shared_ptr<Generation>>& active) {
  std::vector<Chunk> chunks;
  for (const auto& generation : active) {
    const bool all = generation->cache_->length == 0 && generation->scores_prompt();
    chunks.push_back({generation->cache_.get(), generation->pending_, all ? generation->pending_.size() : 1});
  }
  const auto logits = engine.forward(chunks);
  std::size_t row = 0;
  for (std::size_t i = 0; i < active.size(); ++i) {
    const auto own =
        logits.subspan(row * engine.logit_stride(), chunks[i].logit_rows * engine.logit_stride());
    row += chunks[i].logit_rows;
    active[i]->take_logits(own, engine.logit_stride(), engine.vocabulary());
  }
}

void Scheduler::work(Engine& engine) {
  std::vector<std::shared_ptr<Generation>> active;
  while (admit(active, engine.config())) {
    for (const auto& generation : active) {
      std::unique_lock lock(generation->mutex_);
      const bool cancelled = generation->cancelled_;
      lock.unlock();
      if (cancelled) generation->finish(Finish::cancelled);
    }
    const auto ended = [](const auto& generation) { return generation->finish_ != Finish::none; };
    std::erase_if(active, ended);
    if (active.empty()) continue;
    step(engine, active);
    std::erase_if(active, ended);
  }
  for (const auto& generation : active) generation->finish(Finish::cancelled);
}

}  // namespace tinylm
