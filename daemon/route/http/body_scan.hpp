#pragma once

#include <string_view>

#include "daemon/route/http/json_scan.hpp"

namespace driftgate::route {

/// What bodies of requests and of answers share: one object, whose own members are at depth 1. Derived
/// classes read what they need, and ask inside() of each value.
class BodyScan : public JsonEvents {
 public:
  bool begin_object() override {
    ++depth_;
    return true;
  }
  bool begin_array() override {
    ++depth_;
    return depth_ > 1;
  }
  void end() override { --depth_; }
  bool key(const JsonText& /*name*/) override { return true; }
  bool string(const JsonText& /*value*/) override { return inside(); }
  bool number(std::string_view /*digits*/) override { return inside(); }
  bool boolean(bool /*value*/) override { return inside(); }
  bool null() override { return inside(); }

 protected:
  /// False for a value that is not within the one object that a body must be.
  [[nodiscard]] bool inside() const { return depth_ > 0; }
  /// A value or a key that comes now is one of the object's own.
  [[nodiscard]] bool on_top() const { return depth_ == 1; }
  [[nodiscard]] int depth() const { return depth_; }

 private:
  int depth_ = 0;
};

}  // namespace driftgate::route
