#include "daemon/evidence/index/entry_glance.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using schema::EvidenceKind;
using store::Sql;

namespace {

constexpr Sql kKernelOf{
    "kernel of a promotion",
    "SELECT v.kernel FROM promotions p JOIN versions v ON v.id = p.candidate WHERE p.id = ?1"};

std::optional<std::string_view> body_text(const schema::EntryDraft& draft, std::string_view key) {
  const auto found = draft.body.find(key);
  if (found == draft.body.end() || found->second.text() == nullptr) return std::nullopt;
  return *found->second.text();
}

/// The member of the body by which an entry names a kernel itself; empty: none.
std::string_view kernel_member(std::string_view kind) {
  if (kind == schema::to_string(EvidenceKind::kernel_registered)) return "name";
  for (const EvidenceKind named : {EvidenceKind::engine_registered, EvidenceKind::model_bootstrapped,
                                   EvidenceKind::promotion_requested}) {
    if (kind == schema::to_string(named)) return "kernel";
  }
  return {};
}

/// Moves through canonical bytes without escapes. Whatever is not as expected makes it fail, for good.
class Scan {
 public:
  explicit Scan(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool at_end() const { return !failed_ && at_ == bytes_.size(); }

  void expect(std::string_view spelled) {
    if (bytes_.substr(at_).starts_with(spelled)) {
      at_ += spelled.size();
    } else {
      fail();
    }
  }
  bool take(char c) {
    if (at_ >= bytes_.size() || bytes_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view text() {
    if (!take('"')) return fail();
    const std::size_t end = bytes_.find('"', at_);
    if (end == bytes_.npos) return fail();
    const std::string_view content = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return content;
  }
  std::int64_t integer() {
    std::int64_t number = 0;
    const char* const end = bytes_.data() + bytes_.size();
    const auto read = std::from_chars(bytes_.data() + std::min(at_, bytes_.size()), end, number);
    if (read.ec != std::errc()) fail();
    at_ = static_cast<std::size_t>(read.ptr - bytes_.data());
    return number;
  }
  /// Calls `on_text(key, value)` for each member of an object that is a text, and passes over the others.
  template <typename F>
  void object(F&& on_text) {
    expect("{");
    if (take('}')) return;
    do {
      const std::string_view key = text();
      expect(":");
      if (at_ < bytes_.size() && bytes_[at_] == '"') {
        on_text(key, text());
      } else {
        pass_value();
      }
    } while (!failed_ && take(','));
    expect("}");
  }

 private:
  std::string_view fail() {
    failed_ = true;
    at_ = bytes_.size();
    return {};
  }
  /// Up to the ',' or '}' after a value.
  void pass_value() {
    std::size_t depth = 0;
    for (; at_ < bytes_.size(); ++at_) {
      const char c = bytes_[at_];
      if (c == '"') {
        at_ = bytes_.find('"', at_ + 1);
        if (at_ == bytes_.npos) break;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (depth == 0 && (c == ',' || c == '}')) {
        return;
      } else if (c == '}' || c == ']') {
        --depth;
      }
    }
    fail();
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

std::optional<IndexedEntry> scan(std::string_view bytes) {
  IndexedEntry entry;
  std::optional<std::string_view> name, kernel;
  Scan scan(bytes);
  scan.expect("{\"actor\":");
  entry.at(IndexField::actor) = scan.text();
  scan.expect(",\"body\":");
  scan.object([&](std::string_view key, std::string_view value) {
    if (key == "clause") entry.at(IndexField::clause) = value;
    if (key == "verdict") entry.at(IndexField::verdict) = value;
    if (key == "kernel") kernel = value;
    if (key == "name") name = value;
  });
  scan.expect(",\"kind\":");
  const std::string_view kind = scan.text();
  entry.at(IndexField::kind) = kind;
  scan.expect(",\"seq\":");
  scan.integer();
  scan.expect(",\"subject\":");
  scan.object([&](std::string_view key, std::string_view value) {
    for (const IndexField field : {IndexField::model, IndexField::promotion, IndexField::stage,
                                   IndexField::checkpoint, IndexField::contract}) {
      if (key == kFieldNames[field_index(field)]) entry.at(field) = value;
    }
  });
  scan.expect(",\"time_us\":");
  entry.time_us = scan.integer();
  scan.expect(",\"v\":1}");
  if (!scan.at_end()) return std::nullopt;
  const std::string_view named = kernel_member(kind);
  if (!named.empty()) entry.at(IndexField::kernel) = named == "name" ? name : kernel;
  return entry;
}

}  // namespace

IndexedEntry indexed_entry(const schema::EntryDraft& draft) {
  IndexedEntry entry{.time_us = draft.time_us};
  const std::string_view kind = schema::to_string(draft.kind);
  entry.at(IndexField::kind) = kind;
  entry.at(IndexField::actor) = draft.actor;
  entry.at(IndexField::model) = draft.subject.model;
  entry.at(IndexField::promotion) = draft.subject.promotion;
  entry.at(IndexField::stage) = draft.subject.stage;
  entry.at(IndexField::checkpoint) = draft.subject.checkpoint;
  entry.at(IndexField::contract) = draft.subject.contract;
  entry.at(IndexField::clause) = body_text(draft, "clause");
  entry.at(IndexField::verdict) = body_text(draft, "verdict");
  const std::string_view named = kernel_member(kind);
  if (!named.empty()) entry.at(IndexField::kernel) = body_text(draft, named);
  return entry;
}

Result<std::optional<std::string>> kernel_of_promotion(store::Reader& reader, const std::string& promotion) {
  return find_row<std::string>(reader, kKernelOf, {promotion});
}

std::optional<IndexedEntry> EntryGlance::read(std::string_view bytes) {
  if (bytes.find('\\') == bytes.npos) return scan(bytes);
  auto decoded = schema::decode_entry(bytes);
  if (!decoded) return std::nullopt;
  decoded_ = std::move(*decoded);
  return indexed_entry(decoded_->draft);
}

}  // namespace driftgate::evidence
