#include "daemon/jobs/kept_chunks.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "daemon/base/read_file.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;

TEST_CASE("a kept chunk is found under its name and key, by its job, and nowhere else") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  KeptChunks chunks(job, "job 1");
  CHECK_FALSE(chunks.find("a-0001", "key"));
  REQUIRE(chunks.keep("a-0001", "key", "some bytes"));
  CHECK(chunks.find("a-0001", "key") == "some bytes");
  CHECK(KeptChunks(job, "job 1").find("a-0001", "key") == "some bytes");
  CHECK_FALSE(KeptChunks(job, "job 2").find("a-0001", "key"));
  CHECK_FALSE(chunks.find("a-0001", "another key"));
  std::filesystem::rename(folder.path / "chunks/a-0001", folder.path / "chunks/a-0002");
  CHECK_FALSE(chunks.find("a-0002", "key"));
  REQUIRE(chunks.keep("a-0002", "key", ""));
  CHECK(chunks.find("a-0002", "key") == "");
  chunks.clear();
  CHECK_FALSE(std::filesystem::exists(folder.path / "chunks"));
}

TEST_CASE("an attempt takes over the chunks of the one before, once that one's worker is gone") {
  const TempFolder jobs;
  const auto folder = [&](const std::string& key) {
    const JobFolder job(jobs.path / job_folder_name(key));
    std::filesystem::create_directories(job.path());
    return job;
  };
  const auto first = folder("pr-1/offline/1/drift"), second = folder("pr-1/offline/2/drift");
  REQUIRE(KeptChunks(first, "what").keep("table-0000", "key", "measured"));
  {
    const auto worker = first.lock();
    REQUIRE(worker.has_value());
    take_over_chunks(second, "pr-1/offline/2/drift");
    CHECK_FALSE(KeptChunks(second, "what").find("table-0000", "key"));
  }
  take_over_chunks(second, "pr-1/offline/2/drift");
  CHECK(KeptChunks(second, "what").find("table-0000", "key") == "measured");
  CHECK_FALSE(KeptChunks(first, "what").find("table-0000", "key"));
  REQUIRE(KeptChunks(first, "what").keep("table-0000", "key", "of another"));
  take_over_chunks(second, "pr-1/offline/2/drift");  // it has its own
  CHECK(KeptChunks(second, "what").find("table-0000", "key") == "measured");
  for (const auto* key :
       {"drift", "/drift", "a/drift", "2/drift", "pr-1/offline/1/drift", "x/99999999999/drift"})
    take_over_chunks(second, key);
  CHECK(KeptChunks(first, "what").find("table-0000", "key") == "of another");
}

TEST_CASE("a chunk with any byte changed, cut or added is the same as none") {
  const TempFolder folder;
  KeptChunks chunks(JobFolder(folder.path), "job");
  REQUIRE(chunks.keep("c", "key", "bytes of a table"));
  const auto path = folder.path / "chunks/c";
  const auto whole = base::read_file(path);
  REQUIRE(whole);
  const auto put = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  for (std::size_t i = 0; i < whole->size(); ++i) {
    std::string changed = *whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    put(changed);
    CAPTURE(i);
    CHECK_FALSE(chunks.find("c", "key"));
    put(whole->substr(0, i));
    CHECK_FALSE(chunks.find("c", "key"));
  }
  put(*whole + "x");
  CHECK_FALSE(chunks.find("c", "key"));
  put(*whole);
  CHECK(chunks.find("c", "key"));
}

TEST_CASE("what is no regular file is no chunk") {
  const TempFolder folder;
  KeptChunks chunks(JobFolder(folder.path), "job");
  REQUIRE(chunks.keep("c", "key", "x"));
  std::filesystem::create_symlink(folder.path / "chunks/c", folder.path / "chunks/d");
  std::filesystem::create_directory(folder.path / "chunks/e");
  REQUIRE(::mkfifo((folder.path / "chunks/f").c_str(), 0600) == 0);
  for (const char* name : {"d", "e", "f"}) CHECK_FALSE(chunks.find(name, "key"));
}

TEST_CASE("a capture that was written again is another one") {
  const gpu::test::TemporaryFolder folder;
  gpu::test::CaptureDraft draft;
  draft.add_row(0, 0, 1, {1, 2, 3, 4});
  draft.write(folder / "a");
  const auto stamps = [&] {
    const auto capture = gpu::Capture::open(folder / "a");
    REQUIRE(capture);
    return stamps_of(*capture);
  };
  const std::string before = stamps();
  CHECK(stamps() == before);
  const auto time = std::filesystem::last_write_time(folder / "a");
  draft.write(folder / "a");
  std::filesystem::last_write_time(folder / "a", time);  // the change of status cannot be set back
  CHECK(stamps() != before);
}
