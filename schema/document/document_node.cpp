#include "schema/document/document_node.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "schema/json.hpp"

namespace driftgate::schema {
namespace {

SourcePosition position_of(std::string_view text, std::size_t offset) {
  SourcePosition position{1, 1};
  for (const char c : text.substr(0, offset)) {
    if (c == '\n') {
      ++position.line;
      position.column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++position.column;
    }
  }
  return position;
}

// Length of the well-formed UTF-8 sequence at `at` (RFC 3629), 0 when there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return tail(1) && tail(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

std::optional<Fault> check_bytes(std::string_view text) {
  if (text.size() > kMaxDocumentBytes) {
    return Fault{{},
                 "",
                 fmt::format("the document is {} bytes long; at most {} are accepted", text.size(),
                             kMaxDocumentBytes)};
  }
  if (text.starts_with("\xEF\xBB\xBF"))
    return Fault{{1, 1}, "", "the document begins with a byte-order mark; remove it"};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return Fault{position_of(text, at), "", "this is not valid UTF-8"};
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7F) {
      return Fault{position_of(text, at), "",
                   fmt::format("found the control character 0x{:02x}; remove it", byte)};
    }
    at += length;
  }
  return std::nullopt;
}

DocumentNode read_json(std::string_view text) {
  const JsonLimits limits{kMaxDocumentBytes, static_cast<std::uint32_t>(kMaxDocumentDepth),
                          static_cast<std::uint32_t>(kMaxDocumentNodes)};
  if (auto checked = check_json(text, limits, "the document"); !checked) {
    const Error& error = checked.error();
    SourcePosition position;
    if (std::sscanf(error.where.c_str(), "line %u column %u", &position.line, &position.column) == 2) {
      throw detail::Refused{{position, "", error.message}};
    }
    throw detail::Refused{{{}, error.where, error.message}};
  }
  return detail::read_checked_json(text);
}

}  // namespace

std::optional<DocumentNode> read_document(std::string_view text, std::vector<Fault>& faults) {
  if (auto fault = check_bytes(text)) {
    faults.push_back(std::move(*fault));
    return std::nullopt;
  }
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    faults.push_back({{1, 1}, "", "the document is empty"});
    return std::nullopt;
  }
  try {
    return text[first] == '{' ? read_json(text) : detail::read_yaml(text);
  } catch (const detail::Refused& refused) {
    faults.push_back(refused.fault);
    return std::nullopt;
  }
}

nlohmann::json to_json(const DocumentNode& node) {
  switch (node.kind) {
    case DocumentNode::Kind::null:
      return nullptr;
    case DocumentNode::Kind::boolean:
      return node.flag;
    case DocumentNode::Kind::number:
      return node.number;
    case DocumentNode::Kind::text:
      return node.text;
    case DocumentNode::Kind::list: {
      auto out = nlohmann::json::array();
      for (const DocumentNode& item : node.items) out.push_back(to_json(item));
      return out;
    }
    case DocumentNode::Kind::mapping: {
      auto out = nlohmann::json::object();
      for (const auto& member : node.members) out[member.key] = to_json(member.value);
      return out;
    }
  }
  return nullptr;
}

}  // namespace driftgate::schema
