#pragma once

#include <memory>
#include <string>

#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/kernels.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/registry/versions.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/store.hpp"
#include "tests/daemon/store/temp_dir.hpp"

namespace driftgate::store::testing {

/// Opens a store in `folder`; a failure is thrown with its message, which doctest prints.
inline std::unique_ptr<Store> open_store(const std::filesystem::path& folder,
                                         std::size_t queue_limit = 1'024) {
  auto store = Store::open({.data_dir = folder, .opened_us = 1, .queue_limit = queue_limit});
  if (!store) throw std::runtime_error(store.error().describe());
  return std::move(*store);
}

/// A store in a folder of its own.
struct StoreFixture {
  TempDir dir;
  std::unique_ptr<Store> store = open_store(dir.path());
};

/// The value, or an exception with the error's text.
template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().describe());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Runs `f(Tx&)` in a write of its own, or throws its error.
template <typename F>
auto write(Store& store, F&& f) {
  return must(store.write("test", std::forward<F>(f)));
}
template <typename F>
auto read(Store& store, F&& f) {
  return must(store.read(std::forward<F>(f)));
}

/// Changes a database that no store has open, as somebody with sqlite3 would.
inline void change_database(const std::filesystem::path& folder, const std::string& script) {
  auto raw = must(Connection::open((folder / "driftgate.db").string(), Connection::Mode::read_write, ""));
  must(raw->execute(script.c_str(), "change"));
}

inline PromotionRow promotion_row(const std::string& id) {
  return {.id = id,
          .model = "tiny",
          .engine = "engine-b",
          .candidate = "ve-b",
          .contract = "sha256:contract",
          .seed = 0xFFFF'0000'FFFF'0001,
          .request = "{}",
          .requester = "ada",
          .created_us = 10,
          .updated_us = 10};
}

/// A world with one contract, two kernels, engines and versions, and the model "tiny" served by "ve-a".
inline void insert_world(Store& store) {
  write(store, [](Tx& tx) -> Result<void> {
    must(insert_contract(tx,
                         {.digest = "sha256:contract", .name = "c", .canonical = "{}", .registrant = "ada"}));
    for (const std::string name : {"a", "b"}) {
      must(insert_kernel(tx, {.name = "kernel-" + name, .digest = "sha256:k" + name, .canonical = "{}"}));
      must(insert_engine(tx, {.name = "engine-" + name,
                              .base_url = "http://127.0.0.1:1/" + name,
                              .kernel = "kernel-" + name,
                              .checkpoint = "sha256:weights",
                              .abilities = "{}"}));
      must(ensure_version(tx, {.id = "ve-" + name,
                               .checkpoint = "sha256:weights",
                               .kernel = "kernel-" + name,
                               .engine = "engine-" + name,
                               .base_url = "http://127.0.0.1:1/" + name}));
    }
    return insert_model(tx, {.name = "tiny", .incumbent = "ve-a"});
  });
}

/// The world with the running promotion "pr-1" and its stage run "offline-numeric", attempt 1.
inline StageKey insert_running_stage(Store& store) {
  insert_world(store);
  StageKey key{"pr-1", "offline-numeric", 1};
  write(store, [&](Tx& tx) -> Result<void> {
    auto promotion = promotion_row("pr-1");
    promotion.state = PromotionState::running;
    must(insert_promotion(tx, promotion));
    return insert_stage_run(tx, {.key = key, .started_us = 20});
  });
  return key;
}

}  // namespace driftgate::store::testing
