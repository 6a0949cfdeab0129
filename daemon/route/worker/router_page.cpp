#include "daemon/route/worker/router_page.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/base/clock.hpp"
#include "daemon/route/table/route_table.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {

namespace {

constexpr std::uint64_t kMagic = 0x6764726F75746531;  // "gdroute1"
constexpr std::uint32_t kVersion = 1;
constexpr const char* kName = "driftgate-router";
constexpr std::size_t kRouterIdBytes = 32;

struct ModelSlot {
  std::atomic<std::uint32_t> used;  ///< length of the name; written after it
  std::array<char, kMaxNameBytes> name;
  ModelCounters counters;
};

struct alignas(64) WorkerSlot {  // a cache line each: workers beat side by side
  std::atomic<std::int32_t> tid;
  std::atomic<std::uint64_t> beats;
};

}  // namespace

/// All of it is zero in a new file, and atomics without locks mean the same to each process that maps it.
struct PageLayout {
  std::atomic<std::uint64_t> magic;  ///< written last
  std::uint32_t version;
  std::uint32_t workers;
  std::int32_t pid;
  std::array<char, kRouterIdBytes> router_id;
  std::atomic<std::uint32_t> ended;
  std::atomic<std::uint32_t> connections;
  std::atomic<std::int32_t> control_tid;
  std::atomic<std::uint32_t> models;
  std::atomic<std::int64_t> beat_us;
  std::array<WorkerSlot, kPageWorkers> worker;
  std::array<ModelSlot, kPageModels> model;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

namespace {

MappedPage map_shared(int file, int protection) {
  void* at = ::mmap(nullptr, sizeof(PageLayout), protection, MAP_SHARED, file, 0);
  return MappedPage(at == MAP_FAILED ? nullptr : static_cast<PageLayout*>(at));
}

/// A router of an older version has room for fewer models.
bool is_page_size(off_t bytes) {
  return bytes > 0 && static_cast<std::size_t>(bytes) >= offsetof(PageLayout, model) &&
         static_cast<std::size_t>(bytes) <= sizeof(PageLayout);
}

/// How many models fit.
std::size_t slots_in(off_t bytes) {
  return std::min((static_cast<std::size_t>(bytes) - offsetof(PageLayout, model)) / sizeof(ModelSlot),
                  kPageModels);
}

std::string text_of(const char* bytes, std::size_t size) {
  return {bytes, strnlen(bytes, size)};
}

}  // namespace

void UnmapPage::operator()(PageLayout* page) const {
  ::munmap(page, sizeof(PageLayout));
}

std::string_view to_string(Served arm) {
  constexpr std::array<std::string_view, kPageArms> kNames{"incumbent", "candidate", "fallback"};
  return kNames[static_cast<std::size_t>(arm)];
}

RouterPage::RouterPage(std::string_view router_id, std::size_t workers)
    : file_(::memfd_create(kName, MFD_CLOEXEC)) {
  const bool sized = file_ && ::ftruncate(file_.get(), sizeof(PageLayout)) == 0;
  if (sized) layout_ = map_shared(file_.get(), PROT_READ | PROT_WRITE);
  if (layout_ == nullptr) throw std::system_error(errno, std::generic_category(), "the router's shared page");
  layout_->version = kVersion;
  layout_->workers = static_cast<std::uint32_t>(std::min(workers, kPageWorkers));
  layout_->pid = ::getpid();
  router_id.copy(layout_->router_id.data(), layout_->router_id.size() - 1);
  layout_->magic.store(kMagic, std::memory_order_release);
}

ModelCounters* RouterPage::model(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found != models_.end()) return found->second;
  const auto at = layout_->models.load(std::memory_order_relaxed);
  if (at >= kPageModels || name.empty() || name.size() > kMaxNameBytes) return nullptr;
  auto& slot = layout_->model[at];
  name.copy(slot.name.data(), slot.name.size());
  slot.used.store(static_cast<std::uint32_t>(name.size()), std::memory_order_release);
  layout_->models.store(at + 1, std::memory_order_release);
  models_.emplace(name, &slot.counters);
  return &slot.counters;
}

void RouterPage::worker_starts(std::size_t worker) {
  if (worker < kPageWorkers) layout_->worker[worker].tid.store(::gettid(), std::memory_order_relaxed);
}

void RouterPage::beat(std::size_t worker) {
  if (worker >= kPageWorkers) return;
  layout_->beat_us.store(base::wall_clock_us(), std::memory_order_relaxed);
  layout_->worker[worker].beats.fetch_add(1, std::memory_order_relaxed);
}

void RouterPage::control_starts() {
  layout_->control_tid.store(::gettid(), std::memory_order_relaxed);
}

void RouterPage::set_connections(std::uint32_t open) {
  layout_->connections.store(open, std::memory_order_relaxed);
}

void RouterPage::end() {
  layout_->ended.store(1, std::memory_order_release);
}

InFlight::InFlight(ModelCounters* model, Served arm) : model_(model), arm_(arm) {
  if (model_ != nullptr) model_->in_flight[static_cast<std::size_t>(arm_)].fetch_add(1);
}

void InFlight::move_to(Served arm) {
  if (model_ == nullptr) return;
  model_->in_flight[static_cast<std::size_t>(arm)].fetch_add(1);
  model_->in_flight[static_cast<std::size_t>(std::exchange(arm_, arm))].fetch_sub(1);
}

void InFlight::end() {
  auto* model = std::exchange(model_, nullptr);
  if (model != nullptr) model->in_flight[static_cast<std::size_t>(arm_)].fetch_sub(1);
}

schema::Result<PageView> PageView::map(int file) {
  const auto corrupt = [] {
    return schema::fail(schema::ErrorCode::corrupt, "the router's shared page has another version");
  };
  struct stat there {};
  if (::fstat(file, &there) != 0 || !is_page_size(there.st_size)) return corrupt();
  auto layout = map_shared(file, PROT_READ);
  if (layout == nullptr)
    return schema::failf(schema::ErrorCode::io, "cannot map the router's shared page: {}",
                         std::strerror(errno));
  if (layout->magic.load(std::memory_order_acquire) != kMagic || layout->version != kVersion)
    return corrupt();
  return PageView(std::move(layout), slots_in(there.st_size));
}

schema::Result<PageView> PageView::of_process(int pid) {
  namespace fs = std::filesystem;
  const auto folder = fmt::format("/proc/{}/fd", pid);
  const auto wanted = fmt::format("/memfd:{} (deleted)", kName);
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(entry->path(), gone).string() != wanted) continue;
    const base::UniqueFd file(::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC));
    if (file) return map(file.get());
  }
  return schema::failf(schema::ErrorCode::not_found, "process {} has no shared router page", pid);
}

std::vector<WorkerSign> PageView::workers() const {
  std::vector<WorkerSign> signs;
  const auto count = std::min<std::size_t>(layout_->workers, kPageWorkers);
  for (std::size_t i = 0; i < count; ++i)
    signs.push_back({layout_->worker[i].tid.load(), layout_->worker[i].beats.load()});
  return signs;
}

PageContents PageView::read() const {
  PageContents contents;
  contents.pid = layout_->pid;
  contents.router_id = text_of(layout_->router_id.data(), layout_->router_id.size());
  contents.ended = layout_->ended.load() != 0;
  contents.connections = layout_->connections.load();
  contents.beat_us = layout_->beat_us.load();
  contents.control_tid = layout_->control_tid.load();
  contents.workers = workers();
  const auto count = std::min<std::size_t>(layout_->models.load(std::memory_order_acquire), slots_);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& slot = layout_->model[i];
    const auto size = std::min<std::size_t>(slot.used.load(std::memory_order_acquire), slot.name.size());
    PageModel model{std::string(slot.name.data(), size), {},
                    slot.counters.windows.load(),        slot.counters.newest_window.load(),
                    slot.counters.kept_requests.load(),  slot.counters.open_requests.load()};
    for (std::size_t arm = 0; arm < kPageArms; ++arm)
      model.in_flight[arm] = slot.counters.in_flight[arm].load();
    contents.models.push_back(std::move(model));
  }
  return contents;
}

}  // namespace driftgate::route
