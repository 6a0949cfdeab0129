#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/daemon/jobs/temp_folder.hpp"

namespace driftgate::jobs::testing {

/// Programs that behave as Slurm's do, from a folder: jobs/ID/{state,reason,nodes,restarts,exit,used,limit}
/// are what squeue prints, and a test changes them as the controller would.
class FakeSlurm {
 public:
  FakeSlurm() {
    std::filesystem::create_directories(root() / "jobs");
    // An error of the controller, or a refusal, is the text of a file.
    program("sbatch", R"sh(
fail away
fail refuse
comment= folder=
for word in "$@"; do
  case $word in
    --comment=*) comment=${word#--comment=} ;;
    --chdir=*) folder=${word#--chdir=} ;;
  esac
done
id=1
until mkdir "$S/jobs/$id" 2>/dev/null; do id=$((id + 1)); done
cd "$S/jobs/$id"
printf '%s\n' "$@" >words
echo PENDING >state; echo None >reason; echo >nodes; echo 0 >restarts; echo 0 >exit; echo 0:00 >used; echo 1:00:00 >limit
echo "$folder" >folder
echo "$comment" >new; mv new comment  # whole, once it is there
if [ -e "$S/hang" ]; then exec sleep 1000; fi
fail lost_answer
echo "$id"
)sh");
    program("squeue", R"sh(
echo >>"$S/looks"
if [ -e "$S/hang_queue" ]; then echo >"$S/hangs"; exec sleep 1000; fi
fail away
for job in "$S"/jobs/*/comment; do
  [ -e "$job" ] || continue
  cd "${job%/comment}"
  [ -e forgotten ] && continue
  line=${PWD##*/}
  for field in state reason nodes restarts exit used limit comment folder; do
    read -r value <$field
    line=$line$(printf '\037')$value
  done
  printf '%s\037\n' "$line"
done
)sh");
    program("scancel", R"sh(
fail away
for id in "$@"; do
  [ -e "$S/jobs/$id" ] || continue
  echo >>"$S/jobs/$id/cancels"
  read -r state <"$S/jobs/$id/state"
  case $state in PENDING | RUNNING) echo CANCELLED >"$S/jobs/$id/state" ;; esac
done
)sh");
    program("sacct", R"sh(
fail no_accounting
for word in "$@"; do case $word in --jobs=*) id=${word#--jobs=} ;; esac; done
[ -e "$S/jobs/$id/accounted" ] && echo "$id|$(cat "$S/jobs/$id/accounted")"
exit 0
)sh");
    say("no_accounting", "Slurm accounting storage is disabled");
  }

  [[nodiscard]] std::filesystem::path root() const { return folder_.path; }
  [[nodiscard]] std::filesystem::path bin() const { return folder_.path / "bin"; }
  /// Puts a text where the programs look; "away", "refuse", "hang", "hang_queue", "lost_answer",
  /// "no_accounting".
  void say(const std::string& name, const std::string& text) const { replace(root() / name, text); }
  void unsay(const std::string& name) const { std::filesystem::remove(root() / name); }
  void set(int id, const std::string& field, const std::string& value) const {
    replace(job(id) / field, value);
  }
  [[nodiscard]] std::string get(int id, const std::string& field) const {
    std::ifstream file(job(id) / field);
    std::string text;
    std::getline(file, text);
    return text;
  }
  [[nodiscard]] bool has(int id, const std::string& field = "comment") const {
    return std::filesystem::exists(job(id) / field);
  }
  /// How many jobs were ever submitted.
  [[nodiscard]] int submitted() const {
    int count = 0;
    while (has(count + 1)) ++count;
    return count;
  }
  [[nodiscard]] std::uintmax_t looks() const {
    std::error_code none;
    const auto size = std::filesystem::file_size(root() / "looks", none);
    return none ? 0 : size;
  }
  /// Whether squeue hangs now.
  [[nodiscard]] bool hangs() const { return std::filesystem::exists(root() / "hangs"); }
  /// Waits until squeue was asked twice more: what was true before the call has been taken in then.
  void let_look() const {
    const auto from = looks();
    eventually([&] { return looks() >= from + 2; });
  }
  static void eventually(const std::function<bool()>& true_now) {
    for (int i = 0; i < 12'000; ++i) {
      if (true_now()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    REQUIRE(true_now());
  }

 private:
  [[nodiscard]] std::filesystem::path job(int id) const { return root() / "jobs" / std::to_string(id); }
  static void replace(const std::filesystem::path& path, const std::string& text) {
    const auto other = path.string() + ".new";
    std::ofstream(other) << text << '\n';
    std::filesystem::rename(other, path);
  }
  void program(const std::string& name, const std::string& body) const {
    const auto path =
        folder_.file("bin/" + name, "#!/bin/sh\nS='" + root().string() +
                                        "'\nfail() { [ -e \"$S/$1\" ] || return 0; cat \"$S/$1\" "
                                        ">&2; exit 1; }\n" +
                                        body);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  TempFolder folder_;
};

inline constexpr const char* kAwayText =
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)";

}  // namespace driftgate::jobs::testing
