#include "daemon/route/http/http_head.hpp"

#include "daemon/route/table/slice.hpp"
#include "tests/fuzz/unit.hpp"

namespace {

using namespace driftgate;

void check_fields(const route::HeadFields& head, std::string_view bytes) {
  fuzz::require(!(head.chunked && head.content_length), "one way to know where the body ends");
  for (const auto& field : head.fields) {
    fuzz::require(field.name.data() >= bytes.data() &&
                      field.value.data() + field.value.size() <= bytes.data() + bytes.size(),
                  "fields are views into the head");
    fuzz::require(field.value.find_first_of("\r\n") == std::string_view::npos, "no value holds a line end");
  }
}

}  // namespace

/// Heads of users' requests and of engines' answers.
void driftgate::fuzz::run(std::string_view bytes) {
  (void)route::parse_slice_header(bytes);
  std::size_t end = 0;
  if (route::scan_head(bytes, 0, end) == route::HeadScan::complete) {
    require(end <= bytes.size(), "the head ends inside the bytes");
    bytes = bytes.substr(0, end);
  }
  if (const auto request = route::parse_request_head(bytes)) {
    require(request->target.starts_with('/'), "the target is in origin form");
    check_fields(*request, bytes);
  }
  if (const auto response = route::parse_response_head(bytes)) check_fields(*response, bytes);
}
