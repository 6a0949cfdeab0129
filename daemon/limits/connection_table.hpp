#pragma once

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

/// A response counts as stalled when the peer has not read its next bytes for this long.
inline constexpr std::chrono::milliseconds kStalledAfter{5'000};

/// What a connection is doing; connections of an earlier value are evicted first.
enum class Use : std::uint8_t {
  waiting,  ///< between requests, or before the end of a request head
  body,     ///< a request body is being read
  stalled,  ///< the peer does not read its response
  active,   ///< a request is being handled or answered: never evicted
};

/// Limits the connections of one port and the memory of its incomplete request bodies. Both limits hold for
/// all clients together; connections also have a limit for each client. At a limit, the client that holds
/// most loses a connection: the oldest of its least important ones. So a client that holds little is served
/// however much others hold. Safe from any thread.
class ConnectionTable {
 public:
  struct Limits {
    std::size_t connections = 1'024;
    std::size_t connections_per_source = 256;
    std::size_t body_bytes = std::size_t{64} << 20;
  };
  struct Figures {
    std::size_t open = 0;              ///< connections, without evicted ones
    std::size_t body_bytes = 0;        ///< of incomplete bodies
    std::uint64_t evicted = 0;         ///< closed to make room
    std::uint64_t refused = 0;         ///< connections for which there was no room
    std::uint64_t refused_bodies = 0;  ///< bodies for which there was no memory
  };
  class Place;

  explicit ConnectionTable(Limits limits);
  ~ConnectionTable();

  /// A place for a new connection, `active` until Place::begin. At a limit, another connection is evicted:
  /// one of the same client at the client's limit, else one of the client with most evictable connections.
  /// Null when no connection can be evicted.
  [[nodiscard]] std::unique_ptr<Place> admit(const Source& source);
  /// Evicts one connection, as at the limit of all clients; false when there is none to evict. For a process
  /// that has run out of descriptors.
  bool evict_one();

  [[nodiscard]] Figures figures() const;
  /// Connections that have not ended, evicted ones included.
  [[nodiscard]] std::size_t count() const;
  /// A sentence for the log when connections were closed or refused since the last one, at most every 10 s.
  [[nodiscard]] std::optional<std::string> summary(std::chrono::steady_clock::time_point now);
  /// Waits until every place was given back; false when the deadline came first.
  bool wait_for_none(std::chrono::steady_clock::time_point deadline);

 private:
  struct Client;
  using Bucket = std::list<Client*>;
  using Buckets = std::map<std::size_t, Bucket>;

  void link(Place& place);
  void unlink(Place& place);
  void update_bucket(Client& client);
  [[nodiscard]] Bucket& bucket_of(std::size_t evictable_count);
  void charge(Place& place, std::size_t bytes);
  void release(Place& place);
  void evict(Place& place);
  bool evict_from(Client* client);
  [[nodiscard]] Client* client_with_most() const;
  [[nodiscard]] Client* holder_of_most_bytes() const;

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable none_;
  std::map<Source, std::unique_ptr<Client>> clients_;
  Buckets by_evictable_count_;       ///< clients by how many connections they can give up, from 1
  Buckets::node_type spare_bucket_;  ///< of a number that nobody has any more, for the next
  std::size_t places_ = 0;           ///< given out, those of evicted connections included
  Figures figures_;
  Figures summarised_;  ///< when the log was told last
  std::chrono::steady_clock::time_point summarised_at_{};
};

/// One connection's place; given back when destroyed, before the table. One thread uses it at a time.
class ConnectionTable::Place {
 public:
  ~Place();

  /// From here on the connection waits for its first request and may be evicted. `on_evict` is called at most
  /// once, on any thread and under the table's lock: it hands the message to the connection's thread and
  /// returns.
  void begin(std::function<void()> on_evict);
  /// The age that counts begins with each change. Leaving `body` gives its memory back.
  void use(Use next);
  [[nodiscard]] Use in_use() const { return use_; }
  /// The unfinished body takes `bytes` of memory in all; only in use `body`. When that is too much, the
  /// client with most such bytes loses its oldest body. False when that is this client: refuse the body.
  [[nodiscard]] bool hold(std::size_t bytes);
  /// The connection was evicted: finish the response in progress, then close.
  [[nodiscard]] bool evicted() const { return evicted_; }

 private:
  friend class ConnectionTable;
  Place(ConnectionTable& table, Client& client) : table_(table), client_(&client), entry_(1, this) {}

  ConnectionTable& table_;
  Client* client_;  ///< null once evicted
  Use use_ = Use::active;
  std::size_t bytes_ = 0;
  /// Holds the one entry for this place while it is active. Otherwise that stands in the client's list of its
  /// use: it is moved and never made anew.
  std::list<Place*> entry_;
  const std::list<Place*>::iterator at_ = entry_.begin();  ///< that entry, wherever it is
  std::function<void()> on_evict_;
  std::atomic<bool> evicted_ = false;
};

}  // namespace driftgate::limits
