#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace driftgate::route {

/// Decodes the chunked transfer coding (RFC 9112, section 7.1) piece by piece. Chunk extensions and
/// trailers are read within a limit and dropped.
class ChunkedDecoder {
 public:
  static constexpr std::size_t kMaxLineBytes = 1'024;
  static constexpr std::size_t kMaxTrailerBytes = 8'192;
  static constexpr std::size_t kMaxSizeDigits = 8;

  /// Appends the data in `input` to `output`; how many bytes of `input` belong to this body.
  std::size_t feed(std::string_view input, std::string& output);
  [[nodiscard]] bool done() const { return state_ == State::done; }
  [[nodiscard]] bool failed() const { return state_ == State::failed; }

 private:
  enum class State : std::uint8_t { size, data, data_end, trailer, done, failed };
  void end_of_line(std::string_view line);
  void end_of_size_line(std::string_view line);

  State state_ = State::size;
  std::string line_;
  std::uint64_t left_ = 0;
  std::size_t trailer_bytes_ = 0;
};

}  // namespace driftgate::route
