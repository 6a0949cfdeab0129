#pragma once
// The shipped model and corpora, as the tests use them.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "examples/tinylm/src/capture.hpp"

namespace tinylm_tests {

inline std::string shipped(const std::string& name) {
  return std::string(TINYLM_FOLDER) + "/" + name;
}

inline const tinylm::Model& model() {
  static const tinylm::Model loaded = [] {
    auto read = tinylm::load_model(shipped("model"));
    REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
    return std::move(*read);
  }();
  return loaded;
}

inline tinylm::Engine engine(tinylm::Precision precision) {
  tinylm::ActivationMaxima maxima;
  if (precision == tinylm::Precision::int8_static)
    maxima = tinylm::read_calibration(shipped("int8-static/activation_scales.safetensors")).value();
  return tinylm::Engine::create(model(), precision, maxima).value();
}

// A folder that goes with the test.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tinylm-test-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

}  // namespace tinylm_tests
