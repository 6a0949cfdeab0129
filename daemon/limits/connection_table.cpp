#include "daemon/limits/connection_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace driftgate::limits {
namespace {

constexpr std::chrono::seconds kBetweenSummaries{10};
constexpr std::size_t kEvictableUses = 3;  ///< waiting, body, stalled

}  // namespace

struct ConnectionTable::Client {
  explicit Client(Source whose) : source(whose), entry(1, this), at(entry.begin()) {}

  const Source source;
  std::size_t open = 0;
  std::size_t body_bytes = 0;
  std::array<std::list<Place*>, kEvictableUses> evictable;  ///< by use, the oldest first
  std::size_t evictable_count = 0;                          ///< the bucket that it is in; 0: none
  Bucket entry;                                             ///< holds its one entry while it is in no bucket
  const Bucket::iterator at;                                ///< that entry, wherever it is

  [[nodiscard]] std::list<Place*>& of(Use use) { return evictable[static_cast<std::size_t>(use)]; }
  [[nodiscard]] Place* first_to_evict() {
    for (auto& places : evictable)
      if (!places.empty()) return places.front();
    return nullptr;
  }
};

ConnectionTable::ConnectionTable(Limits limits) : limits_(limits) {}
ConnectionTable::~ConnectionTable() = default;

/// A client that comes into a bucket goes behind those that are in it: of equals the first is the one that
/// has not asked for anything for longest.
void ConnectionTable::update_bucket(Client& client) {
  std::size_t evictable_count = 0;
  for (const auto& places : client.evictable) evictable_count += places.size();
  if (evictable_count == client.evictable_count) return;
  if (client.evictable_count > 0) {
    const auto bucket = by_evictable_count_.find(client.evictable_count);
    client.entry.splice(client.entry.end(), bucket->second, client.at);
    if (bucket->second.empty()) spare_bucket_ = by_evictable_count_.extract(bucket);
  }
  client.evictable_count = evictable_count;
  if (evictable_count == 0) return;
  Bucket& bucket = bucket_of(evictable_count);
  bucket.splice(bucket.end(), client.entry);
}

ConnectionTable::Bucket& ConnectionTable::bucket_of(std::size_t evictable_count) {
  const auto known = by_evictable_count_.find(evictable_count);
  if (known != by_evictable_count_.end()) return known->second;
  if (spare_bucket_.empty()) return by_evictable_count_[evictable_count];
  spare_bucket_.key() = evictable_count;
  return by_evictable_count_.insert(std::move(spare_bucket_)).position->second;
}

void ConnectionTable::link(Place& place) {
  if (place.use_ == Use::active || place.client_ == nullptr) return;
  auto& places = place.client_->of(place.use_);
  places.splice(places.end(), place.entry_);
}

void ConnectionTable::unlink(Place& place) {
  if (place.use_ == Use::active || place.client_ == nullptr) return;
  place.entry_.splice(place.entry_.end(), place.client_->of(place.use_), place.at_);
}

/// The place's unfinished body takes `bytes` of memory from now on.
void ConnectionTable::charge(Place& place, std::size_t bytes) {
  place.client_->body_bytes += bytes - place.bytes_;
  figures_.body_bytes += bytes - place.bytes_;
  place.bytes_ = bytes;
}

/// Takes the connection off the counts.
void ConnectionTable::release(Place& place) {
  if (place.client_ == nullptr) return;
  Client& client = *place.client_;
  unlink(place);
  --client.open;
  --figures_.open;
  charge(place, 0);
  place.client_ = nullptr;
  update_bucket(client);
  if (client.open == 0) clients_.erase(client.source);
}

ConnectionTable::Client* ConnectionTable::client_with_most() const {
  return by_evictable_count_.empty() ? nullptr : by_evictable_count_.rbegin()->second.front();
}

void ConnectionTable::evict(Place& place) {
  release(place);
  place.evicted_ = true;
  ++figures_.evicted;
  place.on_evict_();
}

bool ConnectionTable::evict_from(Client* client) {
  Place* const place = client == nullptr ? nullptr : client->first_to_evict();
  if (place != nullptr) evict(*place);
  return place != nullptr;
}

std::unique_ptr<ConnectionTable::Place> ConnectionTable::admit(const Source& source) {
  const std::lock_guard lock(mutex_);
  const auto known = clients_.find(source);
  Client* const own = known == clients_.end() ? nullptr : known->second.get();
  bool room = true;
  if (own != nullptr && own->open >= limits_.connections_per_source)
    room = evict_from(own);
  else if (figures_.open >= limits_.connections)
    room = evict_from(client_with_most());
  if (!room) {
    ++figures_.refused;
    return nullptr;
  }
  auto& client = clients_[source];
  if (!client) client = std::make_unique<Client>(source);
  ++client->open;
  ++figures_.open;
  ++places_;
  return std::unique_ptr<Place>(new Place(*this, *client));
}

bool ConnectionTable::evict_one() {
  const std::lock_guard lock(mutex_);
  return evict_from(client_with_most());
}

ConnectionTable::Figures ConnectionTable::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

std::size_t ConnectionTable::count() const {
  const std::lock_guard lock(mutex_);
  return places_;
}

std::optional<std::string> ConnectionTable::summary(std::chrono::steady_clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto closed = figures_.evicted - summarised_.evicted;
  const auto refused = figures_.refused - summarised_.refused;
  const auto bodies = figures_.refused_bodies - summarised_.refused_bodies;
  if (closed + refused + bodies == 0 || now - summarised_at_ < kBetweenSummaries) return std::nullopt;
  summarised_ = figures_;
  summarised_at_ = now;
  return fmt::format(
      "connection limit reached: {} idle or stalled connections closed to make room, {} refused, {} request "
      "bodies refused for lack of memory; {} are open (at most {}, {} per address)",
      closed, refused, bodies, figures_.open, limits_.connections, limits_.connections_per_source);
}

bool ConnectionTable::wait_for_none(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return none_.wait_until(lock, deadline, [this] { return places_ == 0; });
}

ConnectionTable::Place::~Place() {
  const std::lock_guard lock(table_.mutex_);
  table_.release(*this);
  if (--table_.places_ == 0) table_.none_.notify_all();
}

void ConnectionTable::Place::begin(std::function<void()> on_evict) {
  on_evict_ = std::move(on_evict);  // nobody calls it before the place is linked
  use(Use::waiting);
}

void ConnectionTable::Place::use(Use next) {
  if (next == use_) return;  // nobody else changes it
  const std::lock_guard lock(table_.mutex_);
  table_.unlink(*this);
  use_ = next;
  if (client_ == nullptr) return;
  table_.charge(*this, 0);
  table_.link(*this);
  table_.update_bucket(*client_);
}

ConnectionTable::Client* ConnectionTable::holder_of_most_bytes() const {
  const auto most =
      std::ranges::max_element(clients_, {}, [](const auto& entry) { return entry.second->body_bytes; });
  return most == clients_.end() ? nullptr : most->second.get();
}

bool ConnectionTable::Place::hold(std::size_t bytes) {
  const std::lock_guard lock(table_.mutex_);
  if (client_ == nullptr) return false;
  while (table_.figures_.body_bytes - bytes_ + bytes > table_.limits_.body_bytes) {
    Client* const most = table_.holder_of_most_bytes();
    const bool own = most == client_ || most->body_bytes <= client_->body_bytes - bytes_ + bytes;
    if (own || most->of(Use::body).empty()) {
      ++table_.figures_.refused_bodies;
      return false;
    }
    table_.evict(*most->of(Use::body).front());
  }
  table_.charge(*this, bytes);
  return true;
}

}  // namespace driftgate::limits
