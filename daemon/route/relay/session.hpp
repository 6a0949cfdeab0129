#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>

#include "daemon/route/asio_types.hpp"
#include "daemon/route/http/body_json.hpp"
#include "daemon/route/http/operations.hpp"
#include "daemon/route/relay/answer_judge.hpp"
#include "daemon/route/relay/client_stream.hpp"
#include "daemon/route/relay/mirror.hpp"
#include "daemon/route/relay/upstream.hpp"
#include "daemon/route/table/decide.hpp"
#include "daemon/route/worker/core.hpp"

namespace driftgate::route {

class Session;

/// What the sessions of one thread share.
struct WorkerContext {
  WorkerContext(asio::io_context& loop, RouterCore& shared, std::uint64_t random_seed)
      : io(loop),
        core(shared),
        pool(loop, std::chrono::milliseconds(shared.options.connect_ms)),
        mirror(shared, pool, deadlines),
        random(random_seed) {}

  asio::io_context& io;
  RouterCore& core;
  Deadlines deadlines;
  UpstreamPool pool;
  MirrorQueue mirror;
  std::mt19937_64 random;  ///< for keyless requests
  std::unordered_set<Session*> sessions;
};

/// One client connection: reads requests, decides, asks engines, passes answers on.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(WorkerContext& context, TcpSocket socket, std::unique_ptr<ClientStream::Place> place);
  ~Session();

  Task<void> run();
  /// Closes the connection unless a request is being read or answered.
  void close_if_idle();
  /// A breaker has opened: a request that waits for that engine's first byte goes to another one.
  void follow_breaker();

 private:
  /// A request that was understood and routed.
  struct Plan {
    BodyFacts facts;
    std::string key;
    std::string slice;
    std::shared_ptr<const RoutedModel> route;
    Decision decision;
    Ledger::Ticket ticket;    ///< null for a request that is not judged, or that another data plane counts
    std::uint64_t order = 0;  ///< in which requests were routed, by whoever counts it
  };
  /// The result of asking one engine.
  struct Attempt {
    Attempt(bool stream, bool keep_copy, ApiShape shape)
        : judge(stream, shape), streamed(stream), keep(keep_copy) {}
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;
    ~Attempt() { give_back(std::move(body)); }
    AnswerJudge judge;
    const bool streamed;    ///< as the client asked
    const bool keep;        ///< a streamed answer is kept beside being passed on
    bool withheld = false;  ///< the engine was not asked: its breaker is open
    Ledger::Ticket ticket;  ///< of the request; null for a second attempt, which telemetry does not wait for
    bool kept_all = true;
    bool begun = false;  ///< bytes have gone to the client
    Framing framing = Framing::length;
    std::string body;  ///< the answer, or the copy of it
    std::chrono::steady_clock::time_point ended;
    bool client_gone = false;
    std::uint32_t in_flight = 0;  ///< requests at the engine when it was asked; 0: it was not
  };

  Task<void> answer();
  Task<void> reply(std::string text);
  Task<std::string> pass_on();
  Task<std::string> ask_incumbent(const Plan& plan);
  /// What is wrong with the request, or nothing.
  [[nodiscard]] std::optional<Refusal> read_facts(BodyFacts& facts) const;
  [[nodiscard]] std::optional<Refusal> make_plan(Plan& plan);
  void count(Plan& plan, bool keyless);
  [[nodiscard]] bool placed_by_plane() const;
  void admit(const Plan& plan, Attempt& first, std::optional<FirstByteWait>& wait);
  Task<void> attempt(FirstByteWait& wait, bool discardable, Attempt& out);
  Task<std::string> collect(Exchange& exchange, Attempt& out);
  void begin_passing(Exchange& exchange, Attempt& out);
  Task<std::string> relay(Exchange& exchange, Attempt& out);
  [[nodiscard]] Pieces framed(const ResponseHead& head, Attempt& out, std::string_view data, bool last,
                              std::string& before);
  void judge_end(Attempt& out, std::string_view why);
  [[nodiscard]] bool may_ask_again(const Attempt& first) const;
  void settle(const Plan& plan, const Attempt& first, bool retried);
  void count_other(const Plan& plan, const Attempt& last);
  void offer_mirror(const Plan& plan, Attempt& first);
  [[nodiscard]] bool came_back() const;
  [[nodiscard]] std::string refused(const Refusal& refusal) const;
  [[nodiscard]] std::string own_reply(std::string_view path) const;
  [[nodiscard]] std::string unknown_reply(std::string_view path) const;
  [[nodiscard]] std::string models_body() const;
  [[nodiscard]] std::string model_reply(const std::string& model) const;
  [[nodiscard]] std::string lease_reply() const;
  [[nodiscard]] double elapsed_ms(std::chrono::steady_clock::time_point now) const;

  WorkerContext& context_;
  RouterCore& core_;
  ClientStream client_;
  ClientRequest request_;
  Deadlines::Watch look_;                 ///< for a client that leaves while an engine is asked
  const Operation* operation_ = nullptr;  ///< of the request; null for a path that engines are not asked for
  Exchange* exchange_ = nullptr;          ///< the one in flight, to be cut when the client leaves
  std::chrono::steady_clock::time_point accepted_;
  bool keep_ = false;       ///< the connection stays open after this answer
  bool head_only_ = false;  ///< the request is HEAD: its answer has no body (RFC 9110, section 9.3.2)
};

}  // namespace driftgate::route
