#include <doctest/doctest.h>
#include <errno.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "daemon/auth/tokens.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/store/blobs.hpp"
#include "tests/daemon/store/temp_dir.hpp"
#include "tests/fault/column.hpp"
#include "tests/fault/image.hpp"
#include "tests/fault/shim.hpp"

using namespace driftgate;
using namespace driftgate::fault;
using store::testing::TempDir;
namespace fs = std::filesystem;
using Mode = ShimPlan::Mode;

namespace {

constexpr int kWrites = 6;
constexpr std::size_t kBlobBytes = 9'000;  ///< three pages

// How a life ended, as its exit code; anything else is a fault of its own.
constexpr int kEnded = 0, kRefused = 20, kUnread = 21, kLied = 22;

/// One acknowledged write, told through a pipe.
struct Ack {
  std::int64_t seq;
  int number;  ///< in the entry's body
};

schema::EntryDraft draft(int i) {
  return {.time_us = 1 + i,
          .kind = schema::EvidenceKind::state_changed,
          .actor = "driftgate",
          .subject = {.model = "tiny"},
          .body = {{"i", i}}};
}

/// A daemon's life in `folder`: start, first token, writes with their entries, orderly stop. Every write that
/// was acknowledged goes to `pipe`; after a refused one, reads must still be served.
[[noreturn]] void live(const fs::path& folder, int pipe, const ShimPlan& plan) {
  arm_shim(plan);
  auto store = store::Store::open({.data_dir = folder, .opened_us = 1});
  if (!store) ::_exit(kRefused);
  auto heads = evidence::HeadPublisher::start(**store, {});
  if (!heads) ::_exit(kRefused);
  if (!auth::ensure_first_admin(**store, folder / "admin.token", 5)) ::_exit(kRefused);
  std::int64_t last = 0;
  for (int i = 0; i < kWrites; ++i) {
    const auto done = (*store)->write("write", [&](store::Tx& tx) -> schema::Result<evidence::Appended> {
      auto blob = store::put_blob(tx, std::string(kBlobBytes, static_cast<char>('a' + i)), "text/plain", 1);
      if (!blob) return std::unexpected(blob.error());
      return evidence::append(tx, draft(i));
    });
    if (done) {
      const Ack ack{done->seq, i};
      last = done->seq;
      if (::syscall(SYS_write, pipe, &ack, sizeof ack) != sizeof ack) ::_exit(kLied);
    }
    const auto size = (*store)->read([](store::Reader& reader) { return evidence::tree_size(reader); });
    if (!size || static_cast<std::int64_t>(*size) <= last) ::_exit(kUnread);
  }
  (*heads)->stop();
  (*store)->stop();
  ::_exit(kEnded);
}

struct Life {
  int status = 0;
  std::int64_t calls = 0;  ///< that the shim numbered
  std::vector<Ack> acks;
};

Life run_life(const fs::path& folder, ShimPlan plan) {
  void* const shared =
      ::mmap(nullptr, sizeof *plan.calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  plan.calls = new (shared) std::atomic<std::int64_t>(0);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(ends[0]);
    ::freopen("/dev/null", "w", stderr);  // the message of exit 74, once for each site
    live(folder, ends[1], plan);
  }
  ::close(ends[1]);
  Life ended;
  Ack ack;
  while (::read(ends[0], &ack, sizeof ack) == sizeof ack) ended.acks.push_back(ack);
  ::close(ends[0]);
  REQUIRE(::waitpid(child, &ended.status, 0) == child);
  ended.calls = plan.calls->load();
  ::munmap(shared, sizeof *plan.calls);
  return ended;
}

ShimPlan plan_for(const fs::path& folder, Mode mode, std::int64_t at, int error = 0) {
  ShimPlan plan;
  plan.mode = mode;
  plan.at = at;
  plan.error = error;
  std::strncpy(plan.folder, folder.c_str(), sizeof plan.folder - 1);
  return plan;
}

/// The folder starts again, holds all that was acknowledged, verifies, and has a usable first token.
void check_after(const fs::path& folder, const std::vector<Ack>& acks) {
  auto store = store::Store::open({.data_dir = folder, .opened_us = 2});
  REQUIRE_MESSAGE(store.has_value(), (store ? "" : store.error().describe()));
  auto heads = evidence::HeadPublisher::start(**store, {});
  REQUIRE_MESSAGE(heads.has_value(), (heads ? "" : heads.error().describe()));
  REQUIRE(auth::ensure_first_admin(**store, folder / "admin.token", 6).has_value());
  const auto size = evidence::verify_log(**store);
  REQUIRE_MESSAGE(size.has_value(), (size ? "" : size.error().describe()));
  auto read = (*store)->read([&](store::Reader& reader) -> schema::Result<void> {
    for (const Ack& ack : acks) {
      const auto entry = evidence::find_entry(reader, ack.seq);
      if (!entry) return std::unexpected(entry.error());
      CHECK_MESSAGE(entry->has_value(), "an acknowledged entry is gone: ", ack.seq);
      if (*entry) CHECK((*entry)->bytes.find(fmt::format("\"i\":{}}}", ack.number)) != std::string::npos);
    }
    auto bearer = bytes_of(folder / "admin.token");
    while (bearer.ends_with('\n')) bearer.pop_back();
    auto who = auth::authenticate(reader, bearer, 7);
    if (!who) return std::unexpected(who.error());
    return {};
  });
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().describe()));
}

/// The calls of one life at which something happens in another: each `step`-th, from one that the seed
/// chooses.
struct Sites {
  std::uint64_t seed = seed_of_run();
  int step;
  std::int64_t at = static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(step));
};

void kill_at_calls(std::string_view name, Mode mode, int step) {
  Sites sites{.step = step};
  CAPTURE(sites.seed);
  int lives = 0;
  for (bool more = true; more; sites.at += step, ++lives) {
    CAPTURE(sites.at);
    TempDir dir;
    const auto folder = dir.path() / "d";
    const auto ended = run_life(folder, plan_for(folder, mode, sites.at));
    more = WIFSIGNALED(ended.status);
    if (!more) CHECK(WEXITSTATUS(ended.status) == kEnded);
    check_after(folder, ended.acks);
  }
  CHECK(lives > 100);
  tell(name, sites.seed, fmt::format("{} lives, one for every {} calls", lives, step));
}

void fail_at_calls(std::string_view name, Mode mode, int error, int step) {
  Sites sites{.step = step};
  CAPTURE(sites.seed);
  int ended_74 = 0, refused = 0, went_on = 0;
  for (bool reached = true; reached; sites.at += step) {
    CAPTURE(sites.at);
    TempDir dir;
    const auto folder = dir.path() / "d";
    const auto ended = run_life(folder, plan_for(folder, mode, sites.at, error));
    REQUIRE(WIFEXITED(ended.status));
    const int code = WEXITSTATUS(ended.status);
    CHECK((code == kEnded || code == kRefused || code == store::kExitIo));
    ended_74 += code == store::kExitIo ? 1 : 0;
    refused += code == kRefused ? 1 : 0;
    went_on += code == kEnded ? 1 : 0;
    check_after(folder, ended.acks);
    reached = ended.calls > sites.at;
  }
  // A full disk is no reason to end: the daemon starts or not, and then serves what it can.
  CHECK((error == ENOSPC ? ended_74 == 0 : ended_74 > 10));
  tell(name, sites.seed,
       fmt::format("{} lives, one for every {} calls: {} ended with 74, {} refused to start, {} went on",
                   ended_74 + refused + went_on, step, ended_74, refused, went_on));
}

}  // namespace

// Each of these is a test of its own, so that they run beside each other.
TEST_CASE("kill -9 before each call that changes a file loses nothing that was acknowledged") {
  kill_at_calls("kill -9 before a durable call", Mode::kill_before, 1);
}

// The files are nearly those before the next call: what lies between is the opening of new ones.
TEST_CASE("kill -9 after calls that change a file loses nothing that was acknowledged") {
  kill_at_calls("kill -9 after a durable call", Mode::kill_after, rounds(4, 1));
}

TEST_CASE("a write or sync that fails once, at any call, never loses or invents anything") {
  fail_at_calls("EIO once", Mode::fail_once, EIO, rounds(4, 1));
}

TEST_CASE("writes and syncs that fail from any call on never lose or invent anything") {
  fail_at_calls("EIO from then on", Mode::fail_on, EIO, rounds(4, 1));
}

TEST_CASE("a disk that is full once, at any call, never loses or invents anything") {
  fail_at_calls("a full disk once", Mode::fail_once, ENOSPC, rounds(4, 1));
}

TEST_CASE("a disk that is full from any call on never loses or invents anything") {
  fail_at_calls("a full disk from then on", Mode::fail_on, ENOSPC, rounds(4, 1));
}
