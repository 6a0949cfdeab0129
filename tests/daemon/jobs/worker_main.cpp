#include <string>

#include "daemon/jobs/worker.hpp"

/// Stands for `driftgate worker JOBDIR` in the tests of this folder.
int main(int argc, char** argv) {
  return argc == 2 ? driftgate::jobs::run_worker(argv[1]) : 64;
}
