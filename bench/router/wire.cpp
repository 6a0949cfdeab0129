#include "bench/router/wire.hpp"

#include <fmt/format.h>
#include <strings.h>
#include <time.h>

#include <algorithm>
#include <charconv>

namespace driftgate::bench {
namespace {

constexpr std::size_t kPromptBytes = 300;
constexpr std::size_t kLongPromptBytes = 10'000;
constexpr std::size_t kUserDigits = 8;
constexpr std::uint32_t kUsers = 20'000;
constexpr std::size_t kTimeDigits = 19;
constexpr std::string_view kStreamMember = R"("stream":true)";
constexpr std::string_view kTimeMember = R"("sent_ns":")";
constexpr std::string_view kSentence =
    R"(Translate \"Größe ändern\" into plain English, and explain each step of the answer.\n)";

/// Text of so many bytes as it stands between the quotes of a JSON string.
std::string prompt_of(std::size_t bytes) {
  std::string text;
  while (text.size() + kSentence.size() <= bytes) text += kSentence;
  text.append(bytes - text.size(), 'x');
  return text;
}

/// Writes the number over `digits` characters, with leading zeros.
void write_digits(char* to, std::size_t digits, std::uint64_t number) {
  for (std::size_t i = digits; i-- > 0; number /= 10) to[i] = static_cast<char>('0' + number % 10);
}

bool read_number(std::string_view text, int base, std::uint64_t& number) {
  const auto* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc() && stop != text.data();
}

std::string chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::string_view header_value(std::string_view head, std::string_view name) {
  for (auto at = head.find('\n'); at != std::string_view::npos; at = head.find('\n', at + 1)) {
    auto line = head.substr(at + 1, head.find('\r', at) - at - 1);
    if (line.size() <= name.size() || line[name.size()] != ':') continue;
    if (::strncasecmp(line.data(), name.data(), name.size()) != 0) continue;
    line.remove_prefix(name.size() + 1);
    const auto first = line.find_first_not_of(' ');
    return first == std::string_view::npos ? std::string_view() : line.substr(first);
  }
  return {};
}

RequestText::RequestText(Shape shape) {
  const bool stream = shape == Shape::stream;
  const auto prompt = prompt_of(shape == Shape::long_prompt ? kLongPromptBytes : kPromptBytes);
  const auto asked = stream ? fmt::format(R"("messages":[{{"role":"user","content":"{}"}}])", prompt)
                            : fmt::format(R"("prompt":"{}")", prompt);
  const auto body = fmt::format(R"({{"model":"bench",{}{}"user":"{:0{}}","max_tokens":16,"temperature":0.7,)"
                                R"("metadata":{{"language":"de","domain":"code"}},{}}})",
                                stream ? kStreamMember : "", stream ? "," : "", 0, kUserDigits, asked);
  text_ = fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: router_bench\r\nAccept: */*\r\n"
      "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      stream ? "/v1/chat/completions" : "/v1/completions", body.size(), body);
  constexpr std::string_view kUser = R"("user":")";
  user_at_ = text_.find(kUser) + kUser.size();
}

std::string_view RequestText::next() {
  write_digits(text_.data() + user_at_, kUserDigits, requests_++ % kUsers);
  return text_;
}

bool asks_for_stream(std::string_view body) {
  return body.substr(0, 64).find(kStreamMember) != std::string_view::npos;
}

std::string plain_answer() {
  constexpr std::string_view kBefore =
      R"({"id":"cmpl-bench","object":"text_completion","created":1760000000,"model":"bench",)"
      R"("choices":[{"index":0,"text":")";
  constexpr std::string_view kBehind =
      R"(","logprobs":null,"finish_reason":"length"}],)"
      R"("usage":{"prompt_tokens":60,"completion_tokens":16,"total_tokens":76}})";
  const auto text = prompt_of(kAnswerBytes - kBefore.size() - kBehind.size());
  return fmt::format(
      "HTTP/1.1 200 OK\r\nServer: router_bench\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n"
      "{}{}{}",
      kAnswerBytes, kBefore, text, kBehind);
}

std::string stream_head() {
  return "HTTP/1.1 200 OK\r\nServer: router_bench\r\nContent-Type: text/event-stream\r\n"
         "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
}

std::string stream_end() {
  return chunk("data: [DONE]\n\n") + "0\r\n\r\n";
}

EventText::EventText() {
  text_ = chunk(
      fmt::format(R"(data: {{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1760000000,)"
                  R"("model":"bench",{}{:0{}}","choices":[{{"index":0,"delta":{{"content":" token"}},)"
                  R"("finish_reason":null}}]}})"
                  "\n\n",
                  kTimeMember, 0, kTimeDigits));
  time_at_ = text_.find(kTimeMember) + kTimeMember.size();
}

std::string_view EventText::at(std::uint64_t sent_ns) {
  write_digits(text_.data() + time_at_, kTimeDigits, sent_ns);
  return text_;
}

void AnswerReader::begin() {
  stage_ = Stage::head;
  head_.clear();
  chunk_line_.clear();
  event_line_.clear();
  behind_chunk_ = false;
  body_bytes_ = 0;
  events_ = 0;
  done_ = false;
}

AnswerReader::State AnswerReader::feed(std::string_view bytes, std::uint64_t now,
                                       std::vector<std::uint64_t>* delays) {
  now_ = now;
  delays_ = delays;
  bool good = true;
  while (good && !bytes.empty()) {
    switch (stage_) {
      case Stage::head:
        good = take_head(bytes);
        break;
      case Stage::length:
        good = take_length(bytes);
        break;
      case Stage::chunk_line:
      case Stage::trailer:
        good = take_chunk_line(bytes);
        break;
      case Stage::chunk_data:
        take_chunk_data(bytes);
        break;
      case Stage::whole:
        good = false;
        break;
    }
  }
  if (!good) return State::broken;
  return stage_ == Stage::whole ? State::whole : State::more;
}

bool AnswerReader::take_head(std::string_view& bytes) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  head_.append(bytes);
  const auto end = head_.find(kEnd);
  if (end == std::string::npos) {
    bytes = {};
    return head_.size() <= kMaxHeadBytes;
  }
  bytes.remove_prefix(bytes.size() - (head_.size() - end - kEnd.size()));
  head_.resize(end + kEnd.size());
  if (!head_.starts_with("HTTP/1.1 200 ")) return false;
  if (header_value(head_, "transfer-encoding") == "chunked") {
    stage_ = Stage::chunk_line;
    return true;
  }
  stage_ = Stage::length;
  return read_number(header_value(head_, "content-length"), 10, left_) && left_ > 0;
}

bool AnswerReader::take_length(std::string_view& bytes) {
  if (bytes.size() > left_) return false;
  body_bytes_ += bytes.size();
  left_ -= bytes.size();
  bytes = {};
  if (left_ == 0) stage_ = Stage::whole;
  return true;
}

bool AnswerReader::take_chunk_line(std::string_view& bytes) {
  const auto feed = bytes.find('\n');
  const bool whole = feed != std::string_view::npos;
  chunk_line_.append(bytes.substr(0, whole ? feed : bytes.size()));
  bytes.remove_prefix(whole ? feed + 1 : bytes.size());
  if (!whole) return chunk_line_.size() <= kMaxHeadBytes;
  if (!chunk_line_.ends_with('\r')) return false;
  chunk_line_.pop_back();
  const bool good = end_chunk_line();
  chunk_line_.clear();
  return good;
}

bool AnswerReader::end_chunk_line() {
  if (behind_chunk_) {
    behind_chunk_ = false;
    return chunk_line_.empty();
  }
  if (stage_ == Stage::trailer) {
    if (chunk_line_.empty()) stage_ = Stage::whole;
    return true;
  }
  if (!read_number(chunk_line_, 16, left_)) return false;
  stage_ = left_ == 0 ? Stage::trailer : Stage::chunk_data;
  return true;
}

void AnswerReader::take_chunk_data(std::string_view& bytes) {
  const auto data = bytes.substr(0, std::min<std::uint64_t>(left_, bytes.size()));
  bytes.remove_prefix(data.size());
  body_bytes_ += data.size();
  left_ -= data.size();
  payload(data);
  if (left_ > 0) return;
  behind_chunk_ = true;
  stage_ = Stage::chunk_line;
}

void AnswerReader::payload(std::string_view bytes) {
  for (auto feed = bytes.find('\n'); feed != std::string_view::npos; feed = bytes.find('\n')) {
    if (event_line_.empty()) {
      line_of_stream(bytes.substr(0, feed));
    } else {
      event_line_.append(bytes.substr(0, feed));
      line_of_stream(event_line_);
      event_line_.clear();
    }
    bytes.remove_prefix(feed + 1);
  }
  event_line_.append(bytes);
}

void AnswerReader::line_of_stream(std::string_view line) {
  if (!line.starts_with("data: ")) return;
  if (line == "data: [DONE]") {
    done_ = true;
    return;
  }
  const auto at = line.find(kTimeMember);
  std::uint64_t sent_ns = 0;
  if (at == std::string_view::npos || !read_number(line.substr(at + kTimeMember.size()), 10, sent_ns)) return;
  ++events_;
  if (delays_ != nullptr) delays_->push_back(now_ > sent_ns ? now_ - sent_ns : 0);
}

}  // namespace driftgate::bench
