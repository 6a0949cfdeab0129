#include "schema/contract/contract.hpp"

#include <fmt/format.h>

namespace driftgate::schema {

std::string Clause::address() const {
  return std::string(to_string(family)) + "." + id;
}

std::string_view to_string(Family value) {
  switch (value) {
    case Family::numerical:
      return "numerical";
    case Family::statistical:
      return "statistical";
    case Family::runtime:
      return "runtime";
    case Family::observability:
      return "observability";
  }
  return "numerical";
}

std::string_view to_string(Severity value) {
  return value == Severity::hard ? "hard" : "soft";
}

std::string_view to_string(ExactTensor value) {
  switch (value) {
    case ExactTensor::logits:
      return "logits";
    case ExactTensor::logprobs:
      return "logprobs";
    case ExactTensor::tokens:
      return "tokens";
  }
  return "logits";
}

std::string_view to_string(Swings value) {
  return value == Swings::own ? "own" : "shared";
}

std::string_view to_string(Means value) {
  return value == Means::exact ? "exact" : "approximate";
}

std::string_view to_string(SliceRole value) {
  switch (value) {
    case SliceRole::corpus:
      return "corpus";
    case SliceRole::critical:
      return "critical";
    case SliceRole::monitored:
      return "monitored";
    case SliceRole::discovered:
      return "discovered";
    case SliceRole::described:
      return "described";
  }
  return "corpus";
}

std::string_view to_string(Action value) {
  switch (value) {
    case Action::log:
      return "log";
    case Action::notify:
      return "notify";
    case Action::sample:
      return "sample";
    case Action::freeze:
      return "freeze";
    case Action::step_back:
      return "step_back";
    case Action::route_slice:
      return "route_slice";
    case Action::fallback:
      return "fallback";
    case Action::rollback:
      return "rollback";
    case Action::block:
      return "block";
  }
  return "log";
}

std::string slice_text(const SliceWhere& where) {
  std::string text;
  for (const auto& [key, value] : where) {
    if (!text.empty()) text += ';';
    text += key + "=" + value;
  }
  return text;
}

std::string format_faults(const std::vector<Fault>& faults, std::string_view name) {
  std::string text;
  for (const Fault& fault : faults) {
    if (fault.position.line != 0) {
      text += fmt::format("{}:{}:{}: {}\n", name, fault.position.line, fault.position.column, fault.message);
    } else if (!fault.pointer.empty()) {
      text += fmt::format("{}: {}: {}\n", name, fault.pointer, fault.message);
    } else {
      text += fmt::format("{}: {}\n", name, fault.message);
    }
  }
  return text;
}

}  // namespace driftgate::schema
