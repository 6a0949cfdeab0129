#include "daemon/jobs/job_folder.hpp"

#include <sys/stat.h>

#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;
using schema::ErrorCode;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "a file of a job is put whole over an older one, for its owner only, and leaves nothing beside it") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  for (const std::string& bytes : {std::string("first"), std::string(), std::string("a\0b", 3)}) {
    REQUIRE(job.put("result.json", bytes));
    CHECK(job.get("result.json").value() == bytes);
  }
  struct stat status {};
  REQUIRE(::stat(job.file("result.json").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK_FALSE(std::filesystem::exists(job.file("result.json.tmp")));
}

TEST_CASE("what is left of a write that was cut off is overwritten by the next") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  (void)folder.file("result.json.tmp", "half of a longer result that never");
  REQUIRE(job.put("result.json", "{}"));
  CHECK(job.get("result.json").value() == "{}");
}

TEST_CASE("a file that can not be written or read is named with the system's reason") {
  const TempFolder folder;
  const JobFolder gone(folder.path / "none");
  const auto put = gone.put("spec.json", "{}");
  REQUIRE_FALSE(put);
  CHECK(put.error().code == ErrorCode::io);
  CHECK(has(put.error().message, "none/spec.json.tmp: No such file or directory"));
  const auto got = gone.get("spec.json");
  REQUIRE_FALSE(got);
  CHECK(got.error().code == ErrorCode::not_found);
  CHECK(has(got.error().message, "none/spec.json does not exist"));
  const JobFolder job(folder.path);
  std::filesystem::create_directory(folder.path / "result.json");
  CHECK(job.put("result.json", "{}").error().code == ErrorCode::io);
  CHECK(has(job.get("result.json").error().message, "Is a directory"));
  CHECK(has(gone.lock().error().message, "none/lock"));
}

TEST_CASE("links that an adapter leaves in its folder are neither read nor written through") {
  const TempFolder folder;
  const auto secret = folder.file("secret", "kept");
  std::filesystem::create_directory(folder.path / "job");
  const JobFolder job(folder.path / "job");
  for (const char* name : {"result.json", "result.json.tmp", "progress.jsonl", "lock", "pid"})
    std::filesystem::create_symlink(secret, job.file(name));
  CHECK(job.get("result.json").error().code == ErrorCode::io);
  CHECK(job.put("result.json", "{}").error().code == ErrorCode::io);
  CHECK(job.lock().error().code == ErrorCode::io);
  CHECK(job.number_in("pid") == 0);
  job.report({1, 2, "rows", "measuring"});
  CHECK_FALSE(job.progress().has_value());
  std::ifstream file(secret);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == "kept");
}

TEST_CASE("a pipe in the place of a job's file is refused at once, since nobody may ever write to it") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  for (const char* name : {"result.json", "progress.jsonl", "pid"})
    REQUIRE(::mkfifo(job.file(name).c_str(), 0600) == 0);
  const auto got = job.get("result.json");
  REQUIRE_FALSE(got);
  CHECK(got.error().code == ErrorCode::io);
  CHECK(has(got.error().message, "not a regular file"));
  CHECK_FALSE(job.progress().has_value());
  CHECK(job.number_in("pid") == 0);
  job.report({1, 2, "rows", "measuring"});
  CHECK_FALSE(job.progress().has_value());
}

TEST_CASE("a result is read up to its limit and not a byte further") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  (void)folder.file("most", std::string(kMaxResultBytes, 'x'));
  CHECK(job.get("most")->size() == kMaxResultBytes);
  (void)folder.file("more", std::string(kMaxResultBytes + 1, 'x'));
  const auto more = job.get("more");
  REQUIRE_FALSE(more);
  CHECK(more.error().code == ErrorCode::limit_exceeded);
  CHECK(has(more.error().message, "more is larger than 8388608 bytes"));
}

TEST_CASE("progress is the last whole line") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  CHECK_FALSE(job.progress().has_value());
  for (std::uint64_t i = 0; i < 200; ++i) job.report({i, 200, "rows", "measuring \"a\"\n"});
  const auto told = job.progress();
  REQUIRE(told);
  CHECK(told->done == 199);
  CHECK(told->total == 200);
  CHECK(told->unit == "rows");
  CHECK(told->text == "measuring \"a\"\n");
  std::ofstream(job.file("progress.jsonl"), std::ios::app) << R"({"done":200,"total":2)";
  CHECK(job.progress()->done == 199);
}

TEST_CASE("words that are not UTF-8 do not keep a job from telling how far it is") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  job.report({1, 2, "rows", "Ger\xE4t"});
  const auto told = job.progress();
  REQUIRE(told);
  CHECK(told->done == 1);
  CHECK(told->text == "Ger\xEF\xBF\xBDt");
}

TEST_CASE("damaged progress is no progress and never a fault of who asks") {
  const std::string damages[] = {
      "",
      "\n",
      "\n\n",
      "{}",  // no end of line yet
      "no json\n",
      "[1,2]\n",
      "3\n",
      "{\"done\":\n",
      "{\"done\":\"half\"}\n",
      "{\"done\":null}\n",
      "{\"done\":1,\"total\":[]}\n",
      "{\"done\":1,\"unit\":7}\n",
      "{\"done\":1,\"text\":{}}\n",
      "{\"done\":1,\"text\":\"" + std::string(5'000, 'x') + "\"}\n",  // longer than what is read
      std::string(10'000, '\0'),
      "\xFF\xFE\n",
  };
  for (const std::string& text : damages) {
    CAPTURE(text.substr(0, 40));
    const TempFolder folder;
    (void)folder.file("progress.jsonl", text);
    CHECK_FALSE(JobFolder(folder.path).progress().has_value());
  }
  const TempFolder folder;
  (void)folder.file("progress.jsonl", "garbage\n{\"done\":5}\n");
  CHECK(JobFolder(folder.path).progress()->done == 5);
}

TEST_CASE("a lock is held by one, and is free when its holder is gone") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  CHECK(job.lock_is_free());
  {
    const auto held = job.lock();
    REQUIRE(held);
    CHECK_FALSE(job.lock_is_free());
    const auto second = job.lock();
    REQUIRE_FALSE(second);
    CHECK(second.error().code == ErrorCode::conflict);
    CHECK(has(second.error().message, "lock is held by a live process"));
  }
  CHECK(job.lock_is_free());
  CHECK(job.lock());
}

TEST_CASE("a process number is a positive number alone: half of one could be somebody else's") {
  const std::pair<const char*, int> files[] = {
      {"1234", 1234},    {"1234\n", 1234}, {"1", 1},  {"2147483647", 2'147'483'647},
      {"2147483648", 0}, {"0", 0},         {"-5", 0}, {"", 0},
      {"12 34", 0},      {"12x", 0},       {"+7", 0}, {" 7", 0},
      {"0x10", 0},       {"none", 0}};
  for (const auto& [text, number] : files) {
    CAPTURE(text);
    const TempFolder folder;
    (void)folder.file("pid", text);
    CHECK(JobFolder(folder.path).number_in("pid") == number);
  }
}

TEST_CASE("a file is read in parts whose ends cut no character, and every byte is in one of them") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  const std::string text = "aé€😀\n";  // 1, 2, 3, 4 and 1 bytes
  job.append("log", text.substr(0, 3));
  job.append("log", text.substr(3));
  for (std::size_t limit = 4; limit <= text.size() + 1; ++limit) {
    CAPTURE(limit);
    std::string read;
    std::uint64_t next = 0;
    for (int parts = 0; next < text.size() && parts < 20; ++parts) {
      const auto part = job.part("log", next, limit).value();
      CHECK(part.from == next);
      CHECK(part.size == text.size());
      CHECK(part.next == part.from + part.text.size());
      read += part.text;
      next = part.next;
    }
    CHECK(read == text);
    const auto end = job.part("log", std::nullopt, limit).value();
    CHECK(end.next == text.size());
    CHECK(end.text == text.substr(end.from));
  }
  CHECK(job.part("log", 100, 10)->next == text.size());
  CHECK(job.part("log", 100, 10)->text.empty());
  CHECK(job.part("none", 0, 10).error().code == ErrorCode::not_found);
}

TEST_CASE("bytes that are no UTF-8 are replaced and do not stop the reading") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  job.append("log", std::string("ok\xff\xfe\xc3", 5));
  const auto part = job.part("log", 0, 100).value();
  CHECK(part.text == "ok\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(part.next == 4);  // the last byte may be the start of a character
  job.append("log", "x");
  CHECK(job.part("log", part.next, 100)->text == "\xEF\xBF\xBDx");
}

TEST_CASE("what programs have printed is the log and Slurm's outputs in the order of their submissions") {
  const TempFolder folder;
  const JobFolder job(folder.path);
  CHECK(job.printed().empty());
  for (const char* name : {"slurm-99.out", "slurm-100.out", "slurm-.out", "slurm-1x.out", "slurm-5.err",
                           "log", "result.json", "slurm-7_1.out"})
    (void)folder.file(name, "x");
  CHECK(job.printed() == std::vector<std::string>{"log", "slurm-99.out", "slurm-100.out", "slurm-7_1.out"});
  CHECK(JobFolder(folder.path / "none").printed().empty());
}
