#include "daemon/limits/connection_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace driftgate::limits {
namespace {

constexpr std::chrono::seconds kBetweenNews{10};
constexpr std::size_t kGivingUses = 3;  ///< waiting, body, stalled

}  // namespace

struct ConnectionTable::Client {
  explicit Client(Source whose) : source(whose) {}

  const Source source;
  std::size_t open = 0;
  std::size_t body_bytes = 0;
  std::array<std::list<Place*>, kGivingUses> giving;  ///< by use, the oldest first
  std::size_t supply = 0;                             ///< the bucket that it is in; 0: none
  Bucket::iterator at;

  [[nodiscard]] std::list<Place*>& of(Use use) { return giving[static_cast<std::size_t>(use)]; }
  [[nodiscard]] Place* missed_least() {
    for (auto& places : giving)
      if (!places.empty()) return places.front();
    return nullptr;
  }
};

ConnectionTable::ConnectionTable(Limits limits) : limits_(limits) {}
ConnectionTable::~ConnectionTable() = default;

ConnectionTable::Client& ConnectionTable::client_of(const Source& source) {
  auto& client = clients_[source];
  if (!client) client = std::make_unique<Client>(source);
  return *client;
}

/// A client that comes into a bucket goes behind those that are in it: of equals the first is the one that
/// has not asked for anything for longest.
void ConnectionTable::sort_in(Client& client) {
  std::size_t supply = 0;
  for (const auto& places : client.giving) supply += places.size();
  if (supply == client.supply) return;
  if (client.supply > 0) {
    const auto bucket = by_supply_.find(client.supply);
    bucket->second.erase(client.at);
    if (bucket->second.empty()) by_supply_.erase(bucket);
  }
  client.supply = supply;
  if (supply == 0) return;
  Bucket& bucket = by_supply_[supply];
  client.at = bucket.insert(bucket.end(), &client);
}

void ConnectionTable::link(Place& place) {
  if (place.use_ == Use::active || place.client_ == nullptr) return;
  auto& places = place.client_->of(place.use_);
  place.at_ = places.insert(places.end(), &place);
}

void ConnectionTable::unlink(Place& place) {
  if (place.use_ == Use::active || place.client_ == nullptr) return;
  place.client_->of(place.use_).erase(place.at_);
}

void ConnectionTable::forget_if_empty(Client& client) {
  if (client.open == 0) clients_.erase(client.source);
}

/// Takes the connection off the counts.
void ConnectionTable::release(Place& place) {
  if (place.client_ == nullptr) return;
  Client& client = *place.client_;
  unlink(place);
  --client.open;
  --figures_.open;
  client.body_bytes -= place.bytes_;
  figures_.body_bytes -= place.bytes_;
  place.bytes_ = 0;
  place.client_ = nullptr;
  sort_in(client);
  forget_if_empty(client);
}

ConnectionTable::Client* ConnectionTable::richest() const {
  return by_supply_.empty() ? nullptr : by_supply_.rbegin()->second.front();
}

void ConnectionTable::dismiss(Place& place) {
  release(place);
  place.gave_way_ = true;
  ++figures_.gave_way;
  place.give_way_();
}

bool ConnectionTable::give_way_from(Client* client) {
  Place* const place = client == nullptr ? nullptr : client->missed_least();
  if (place != nullptr) dismiss(*place);
  return place != nullptr;
}

std::unique_ptr<ConnectionTable::Place> ConnectionTable::admit(const Source& source) {
  const std::lock_guard lock(mutex_);
  const auto known = clients_.find(source);
  Client* const own = known == clients_.end() ? nullptr : known->second.get();
  bool room = true;
  if (own != nullptr && own->open >= limits_.connections_per_source)
    room = give_way_from(own);
  else if (figures_.open >= limits_.connections)
    room = give_way_from(richest());
  if (!room) {
    ++figures_.refused;
    return nullptr;
  }
  Client& client = client_of(source);
  ++client.open;
  ++figures_.open;
  ++places_;
  return std::unique_ptr<Place>(new Place(*this, client));
}

bool ConnectionTable::make_room() {
  const std::lock_guard lock(mutex_);
  return give_way_from(richest());
}

ConnectionTable::Figures ConnectionTable::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

std::size_t ConnectionTable::count() const {
  const std::lock_guard lock(mutex_);
  return places_;
}

std::optional<std::string> ConnectionTable::news(std::chrono::steady_clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto closed = figures_.gave_way - told_.gave_way;
  const auto refused = figures_.refused - told_.refused;
  const auto bodies = figures_.refused_bodies - told_.refused_bodies;
  if (closed + refused + bodies == 0 || now - told_at_ < kBetweenNews) return std::nullopt;
  told_ = figures_;
  told_at_ = now;
  return fmt::format(
      "at a limit of connections: {} idle or stalled ones closed to make room, {} refused, {} bodies refused "
      "for want of memory; {} are open (at most {}, {} of one address)",
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

void ConnectionTable::Place::begin(std::function<void()> give_way) {
  give_way_ = std::move(give_way);  // nobody calls it before the place is linked
  use(Use::waiting);
}

void ConnectionTable::Place::use(Use next) {
  if (next == use_) return;  // nobody else changes it
  const std::lock_guard lock(table_.mutex_);
  table_.unlink(*this);
  use_ = next;
  if (client_ == nullptr) return;
  client_->body_bytes -= bytes_;
  table_.figures_.body_bytes -= bytes_;
  bytes_ = 0;
  table_.link(*this);
  table_.sort_in(*client_);
}

ConnectionTable::Client* ConnectionTable::holder_of_most_bytes() const {
  const auto most = std::ranges::max_element(
      clients_, {}, [](const auto& entry) { return entry.second->body_bytes; });
  return most == clients_.end() ? nullptr : most->second.get();
}

bool ConnectionTable::Place::hold(std::size_t bytes) {
  const std::lock_guard lock(table_.mutex_);
  if (client_ == nullptr) return false;
  const auto others = [this] { return table_.figures_.body_bytes - bytes_; };
  while (others() + bytes > table_.limits_.body_bytes) {
    Client* const most = table_.holder_of_most_bytes();
    const bool own = most == client_ || most->body_bytes <= client_->body_bytes - bytes_ + bytes;
    if (own || most->of(Use::body).empty()) {
      ++table_.figures_.refused_bodies;
      return false;
    }
    table_.dismiss(*most->of(Use::body).front());
  }
  client_->body_bytes = client_->body_bytes - bytes_ + bytes;
  table_.figures_.body_bytes = others() + bytes;
  bytes_ = bytes;
  return true;
}

}  // namespace driftgate::limits
