#include <doctest/doctest.h>

#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "daemon/store/blobs.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate::store;
using namespace driftgate::store::testing;

TEST_CASE_FIXTURE(StoreFixture, "a WAL that a reader kept growing is truncated once the reader has gone") {
  const auto wal_bytes = [&] { return std::filesystem::file_size(dir.path() / "driftgate.db-wal"); };
  const auto write_megabyte = [&](int number) {
    const std::string bytes(1 << 20, static_cast<char>('a' + number % 26));
    write(*store, [&](Tx& tx) { return put_blob(tx, std::to_string(number) + bytes, "text/plain", 1); });
  };
  write_megabyte(0);
  std::promise<void> reading, finish;
  std::thread reader([&] {
    (void)store->read([&](Reader& snapshot) -> Result<int> {
      (void)find_blob(snapshot, "sha256:none");  // the snapshot begins with the first statement
      reading.set_value();
      finish.get_future().wait();
      return 0;
    });
  });
  reading.get_future().wait();
  constexpr int kBeyond = static_cast<int>(kTruncateCheckpointBytes >> 20) + 8;
  for (int i = 1; i <= kBeyond; ++i) write_megabyte(i);
  CHECK(wal_bytes() > kTruncateCheckpointBytes);
  finish.set_value();
  reader.join();
  for (int i = 1; i <= 8; ++i) write_megabyte(kBeyond + i);
  CHECK(wal_bytes() < kTruncateCheckpointBytes / 2);
}
