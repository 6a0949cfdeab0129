#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/cpu/row_engine.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/oracle.hpp"
#include "tests/gpu/sentinel_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

nlohmann::json expectations() {
  std::ifstream file("tests/vectors/expected_hard_rows.json");
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("a sentinel for a masked token does not change the figures of the other tokens") {
  for (const Case& test : sentinel_rows()) {
    const auto columns = static_cast<std::uint32_t>(test.pair.train.size());
    const driftgate_batch batch{sizeof(driftgate_batch), columns,           1,  test.train.view(columns),
                                test.inf.view(columns),  &*test.pair.token, 1.0};
    for (const cpu::TileKernel* kernel : kernels()) {
      CAPTURE(test.text);
      CAPTURE(kernel->name);
      cpu::RowEngine engine(*kernel, columns, 10);
      driftgate_row row{};
      engine.measure(batch, 0, row);
      check_sentinel_row(test, row);
    }
  }
}

TEST_CASE("the hard rows agree with their long double expectations") {
  const auto train = Capture::open("tests/vectors/hard_train.safetensors");
  const auto inf = Capture::open("tests/vectors/hard_inf.safetensors");
  REQUIRE(train);
  REQUIRE(inf);
  const nlohmann::json wanted = expectations();
  REQUIRE(wanted.size() == train->rows());
  const std::uint64_t stride = std::uint64_t{train->vocabulary()} * 4;
  const driftgate_batch batch{sizeof(driftgate_batch),
                              train->vocabulary(),
                              train->rows(),
                              {train->segments()[0].logits, stride, DRIFTGATE_F32, 0},
                              {inf->segments()[0].logits, stride, DRIFTGATE_F32, 0},
                              train->token_ids().data(),
                              1.0};
  for (const cpu::TileKernel* kernel : kernels()) {
    cpu::RowEngine engine(*kernel, train->vocabulary(), 10);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      driftgate_row row{};
      engine.measure(batch, i, row);
      REQUIRE(row.status == DRIFTGATE_ROW_OK);
      Row figures;
      figures.fill(0);  // nonfinite is not in the file
      for (const auto& [name, text] : wanted[i].items()) {
        if (name == "name") continue;
        const auto metric = schema::metric_from_name(name);
        REQUIRE(metric);
        figures[static_cast<std::size_t>(*metric)] = strtold(text.get<std::string>().c_str(), nullptr);
      }
      CAPTURE(kernel->name);
      CAPTURE(wanted[i]["name"].get<std::string>());
      CHECK(disagreement(figures, row.values) == "");
    }
  }
}
