// Diagnoses pairs of captures: `driftgate_diagnose CORPUS`, then on standard input one line a pair, "TRAIN
// INF" or "TRAIN INF FLOOR_INF", without spaces in paths. Answers with one line of JSON each, in order.

#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gpu/compare_bits.hpp"
#include "stages/diagnosis/diagnosis.hpp"

using namespace driftgate;

namespace {

template <typename T>
T or_end(schema::Result<T> result) {
  if (result) return std::move(*result);
  std::cerr << "driftgate_diagnose: " << result.error().describe() << "\n";
  std::exit(4);
}

gpu::MeasurementTable measured(const gpu::Capture& train, const std::string& path,
                               const gpu::Corpus& corpus) {
  gpu::MeasureOptions options;
  options.threads = 1;
  return or_end(gpu::measure_with_bits(train, or_end(gpu::Capture::open(path)), &corpus, options, {}));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: driftgate_diagnose CORPUS < pairs\n";
    return 64;
  }
  const gpu::Corpus corpus = or_end(gpu::read_corpus(arguments[1]));
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string train_path, inf_path, floor_path;
    words >> train_path >> inf_path >> floor_path;
    const gpu::Capture train = or_end(gpu::Capture::open(train_path));
    const gpu::MeasurementTable table = measured(train, inf_path, corpus);
    gpu::MeasurementTable floor;
    stages::Floors floors;
    if (!floor_path.empty()) {
      floor = measured(or_end(gpu::Capture::open(inf_path)), floor_path, corpus);
      floors.inf.table = &floor;
    }
    const auto diagnosis = stages::diagnose(table, floors);
    nlohmann::json out = nlohmann::json::parse(stages::diagnosis_json(diagnosis, table));
    out.erase("profile");
    std::cout << out.dump() << std::endl;
  }
  return 0;
}
