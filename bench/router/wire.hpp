#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What router_bench's load generator and its engine say to each other over HTTP/1.1. None of the router's
/// code is used here: what measures the router must not change with it.
namespace driftgate::bench {

enum class Shape : std::uint8_t {
  small,        ///< a prompt of 300 bytes and an answer of kAnswerBytes
  long_prompt,  ///< a prompt of 10,000 bytes and an answer of kAnswerBytes
  stream,       ///< a prompt of 300 bytes and an answer of server-sent events
};

inline constexpr std::size_t kAnswerBytes = 1'024;  ///< of the body of an answer that is not streamed
inline constexpr std::size_t kMaxHeadBytes = 64u << 10;

/// CLOCK_MONOTONIC in ns, the same for all processes of a machine.
[[nodiscard]] std::uint64_t now_ns();

/// The value of a header field, whatever the case of its name; empty when there is none.
[[nodiscard]] std::string_view header_value(std::string_view head, std::string_view name);

/// Requests that differ in `user`, the sticky key of driftgate's router.
class RequestText {
 public:
  explicit RequestText(Shape shape);
  /// The next request; valid until the next call.
  [[nodiscard]] std::string_view next();

 private:
  std::string text_;
  std::size_t user_at_ = 0;
  std::uint32_t requests_ = 0;
};

/// True for the body of a request of Shape::stream.
[[nodiscard]] bool asks_for_stream(std::string_view body);

/// The whole answer to the other shapes, with its head.
[[nodiscard]] std::string plain_answer();
/// The head of a streamed answer.
[[nodiscard]] std::string stream_head();
/// The last event and the end of the chunked body.
[[nodiscard]] std::string stream_end();

/// An event of a streamed answer as a chunk of its body.
class EventText {
 public:
  EventText();
  /// The event with the time at which it is sent; valid until the next call.
  [[nodiscard]] std::string_view at(std::uint64_t sent_ns);

 private:
  std::string text_;
  std::size_t time_at_ = 0;
};

/// Reads the answers of one connection, one after another.
class AnswerReader {
 public:
  enum class State : std::uint8_t { more, whole, broken };

  /// For the next answer.
  void begin();
  /// Takes the bytes that came at `now`. `delays`, unless null, gets the age of each event in ns. `broken`
  /// for every answer but a 200 that is framed by Content-Length or chunks and ends where the bytes do.
  [[nodiscard]] State feed(std::string_view bytes, std::uint64_t now, std::vector<std::uint64_t>* delays);

  [[nodiscard]] std::uint64_t body_bytes() const { return body_bytes_; }
  [[nodiscard]] std::uint32_t events() const { return events_; }
  /// The answer was a stream and came to its last event.
  [[nodiscard]] bool streamed_to_end() const { return done_; }
  /// The head, for messages.
  [[nodiscard]] const std::string& head() const { return head_; }

 private:
  enum class Stage : std::uint8_t { head, length, chunk_line, chunk_data, trailer, whole };

  bool take_head(std::string_view& bytes);
  bool take_length(std::string_view& bytes);
  bool take_chunk_line(std::string_view& bytes);
  bool end_chunk_line();
  void take_chunk_data(std::string_view& bytes);
  void payload(std::string_view bytes);
  void line_of_stream(std::string_view line);

  Stage stage_ = Stage::head;
  std::string head_;
  std::uint64_t left_ = 0;  ///< of the body, or of its chunk
  std::string chunk_line_;
  bool behind_chunk_ = false;  ///< the next line ends a chunk's data
  std::string event_line_;
  std::uint64_t body_bytes_ = 0;
  std::uint32_t events_ = 0;
  bool done_ = false;
  std::uint64_t now_ = 0;
  std::vector<std::uint64_t>* delays_ = nullptr;
};

}  // namespace driftgate::bench
