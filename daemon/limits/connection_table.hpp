#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/limits/source.hpp"

namespace driftgate::limits {

/// Connections that may wait to be accepted; the kernel takes net.core.somaxconn if that is less.
inline constexpr int kListenBacklog = 4'096;

/// An answer of which the peer has not taken the next bytes for so long counts as stalled.
inline constexpr std::chrono::milliseconds kStalledAfter{5'000};

/// What a connection is doing, from the one that is missed least.
enum class Use : std::uint8_t {
  waiting,  ///< between requests, or before the end of a request's head
  body,     ///< a request's body is being read
  stalled,  ///< the peer does not read its answer
  active,   ///< a request is worked on or answered: never closed to make room
};

/// What clients hold of one port: connections, and memory of bodies that are not complete. Both are bounded
/// for all clients together, connections also for each client. At a bound the client that holds most gives
/// something up: its oldest connection of the least use, so that a client that holds little is served
/// however much others hold. Safe from any thread.
class ConnectionTable {
 public:
  struct Limits {
    std::size_t connections = 1'024;
    std::size_t connections_per_source = 256;
    std::size_t body_bytes = std::size_t{64} << 20;
  };
  struct Figures {
    std::size_t open = 0;              ///< connections, without those that were told to give way
    std::size_t body_bytes = 0;        ///< of unfinished bodies
    std::uint64_t gave_way = 0;        ///< closed to make room
    std::uint64_t refused = 0;         ///< connections for which there was no room
    std::uint64_t refused_bodies = 0;  ///< bodies for which there was no memory
  };
  class Place;

  explicit ConnectionTable(Limits limits);
  ~ConnectionTable();
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  /// A place for a new connection, `active` until Place::begin. When there is none left, another connection
  /// gives way: of the same client at the client's bound, else of the client that has most to give. Null
  /// when nothing may be closed.
  [[nodiscard]] std::unique_ptr<Place> admit(const Source& source);
  /// Tells one connection to give way, as at the bound of all; false when none may. For a process that has
  /// run out of descriptors.
  bool make_room();

  [[nodiscard]] Figures figures() const;
  /// Connections that have not ended, those that were told to give way included.
  [[nodiscard]] std::size_t count() const;
  /// A sentence for the log when connections were closed or refused since the last one, at most every 10 s.
  [[nodiscard]] std::optional<std::string> news(std::chrono::steady_clock::time_point now);
  /// Waits until every place was given back; false when the deadline came first.
  bool wait_for_none(std::chrono::steady_clock::time_point deadline);

 private:
  struct Client;
  using Bucket = std::list<Client*>;

  Client& client_of(const Source& source);
  void link(Place& place);
  void unlink(Place& place);
  void sort_in(Client& client);
  void forget_if_empty(Client& client);
  void release(Place& place);
  void dismiss(Place& place);
  bool give_way_from(Client* client);
  [[nodiscard]] Client* richest() const;
  [[nodiscard]] Client* holder_of_most_bytes() const;

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable none_;
  std::map<Source, std::unique_ptr<Client>> clients_;
  std::map<std::size_t, Bucket> by_supply_;  ///< clients by how many connections they can give up, from 1
  std::size_t places_ = 0;                   ///< given out, those that gave way included
  Figures figures_;
  Figures told_;  ///< when the log was told last
  std::chrono::steady_clock::time_point told_at_{};
};

/// One connection's place; given back when destroyed, before the table. One thread uses it at a time.
class ConnectionTable::Place {
 public:
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  /// From here on the connection waits for its first request and may be told to give way. `give_way` is
  /// called at most once, on any thread and under the table's lock: it hands the message to the thread of
  /// the connection and returns.
  void begin(std::function<void()> give_way);
  /// The age that counts begins with each change. Leaving `body` gives its memory back.
  void use(Use next);
  [[nodiscard]] Use in_use() const { return use_; }
  /// The unfinished body takes `bytes` of memory in all; only in use `body`. When that is too much, the
  /// client with most such bytes loses its oldest body. False when that is this client: refuse the body.
  [[nodiscard]] bool hold(std::size_t bytes);
  /// It was told to give way: answer what is in progress, then close.
  [[nodiscard]] bool gave_way() const { return gave_way_; }

 private:
  friend class ConnectionTable;
  Place(ConnectionTable& table, Client& client) : table_(table), client_(&client) {}

  ConnectionTable& table_;
  Client* client_;  ///< null once it gave way
  Use use_ = Use::active;
  std::size_t bytes_ = 0;
  std::list<Place*>::iterator at_;  ///< in the client's list of its use, unless active
  std::function<void()> give_way_;
  std::atomic<bool> gave_way_ = false;
};

}  // namespace driftgate::limits
