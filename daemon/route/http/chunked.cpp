#include "daemon/route/http/chunked.hpp"

#include <algorithm>
#include <charconv>

namespace driftgate::route {

std::size_t ChunkedDecoder::feed(std::string_view input, std::string& output) {
  std::size_t used = 0;
  while (used < input.size() && !done() && !failed()) {
    if (state_ == State::data) {
      const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, input.size() - used));
      output.append(input.substr(used, take));
      used += take;
      left_ -= take;
      if (left_ == 0) state_ = State::data_end;
      continue;
    }
    const char byte = input[used++];
    line_.push_back(byte);
    if (byte == '\n') {
      end_of_line();
    } else if (line_.size() > kMaxLineBytes || (state_ == State::data_end && line_.size() > 1)) {
      state_ = State::failed;
    }
  }
  return used;
}

void ChunkedDecoder::end_of_line() {
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') {
    state_ = State::failed;
    return;
  }
  line_.resize(line_.size() - 2);
  if (line_.find('\r') != std::string::npos) {
    state_ = State::failed;
  } else if (state_ == State::size) {
    end_of_size_line();
  } else if (state_ == State::data_end) {
    state_ = line_.empty() ? State::size : State::failed;
  } else if (state_ == State::trailer) {
    trailer_bytes_ += line_.size();
    if (line_.empty()) state_ = State::done;
    if (trailer_bytes_ > kMaxTrailerBytes) state_ = State::failed;
  }
  line_.clear();
}

void ChunkedDecoder::end_of_size_line() {
  const auto* const first = line_.data();
  const auto* const last = first + line_.size();
  const auto [stop, error] = std::from_chars(first, last, left_, 16);
  const bool extension = stop != last && (*stop == ';' || *stop == ' ' || *stop == '\t');
  const bool digits =
      error == std::errc() && *first != '-' && static_cast<std::size_t>(stop - first) <= kMaxSizeDigits;
  if (!digits || (stop != last && !extension)) {
    state_ = State::failed;
  } else {
    state_ = left_ == 0 ? State::trailer : State::data;
  }
}

}  // namespace driftgate::route
