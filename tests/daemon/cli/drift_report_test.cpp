#include "daemon/drift/drift_report.hpp"
#include "daemon/cli/drift/drift_text.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace driftgate;

TEST_CASE("a report says how many rows a device left to the CPU, and nothing of it without a device") {
  gpu::MeasurementTable table;
  table.rows = 300;
  table.slices.emplace_back();
  drift::DriftReport report;
  report.table = &table;
  report.corpus = gpu::summarise(table);
  const auto text_has = [&](const char* words) {
    return cli::drift_text(report).find(words) != std::string::npos;
  };
  const auto json = [&] { return nlohmann::json::parse(drift::drift_json(report)); };
  report.device = "cpu";
  CHECK_FALSE(json().contains("rows_on_cpu"));
  CHECK_FALSE(text_has("measured on the"));
  report.device = "cuda";
  table.rows_on_cpu = 0;
  CHECK(json()["rows_on_cpu"] == 0);
  CHECK(text_has("All rows were measured on the device."));
  table.rows_on_cpu = 3;
  CHECK(json()["rows_on_cpu"] == 3);
  CHECK(text_has("3 of 300 rows were measured on the CPU: the device could not compute them"));
}
