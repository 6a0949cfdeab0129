#include "daemon/route/http/chunked.hpp"

#include <algorithm>
#include <charconv>

#include "daemon/base/http_text.hpp"

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
    const auto rest = input.substr(used);
    const auto end = rest.find('\n');
    const auto piece = rest.substr(0, end);
    const std::size_t most = state_ == State::data_end ? 1 : kMaxLineBytes;
    if (line_.size() + piece.size() > most) {
      used += most - line_.size() + 1;
      state_ = State::failed;
    } else if (end == std::string_view::npos) {
      line_.append(piece);
      used = input.size();
    } else if (line_.empty()) {
      used += end + 1;
      end_of_line(piece);
    } else {
      used += end + 1;
      line_.append(piece);
      end_of_line(line_);
      line_.clear();
    }
  }
  return used;
}

/// `line` is without its line feed.
void ChunkedDecoder::end_of_line(std::string_view line) {
  const bool ended = line.ends_with('\r');
  if (ended) line.remove_suffix(1);
  if (!ended || line.contains('\r')) {
    state_ = State::failed;
  } else if (state_ == State::size) {
    end_of_size_line(line);
  } else if (state_ == State::data_end) {
    state_ = line.empty() ? State::size : State::failed;
  } else if (state_ == State::trailer) {
    trailer_bytes_ += line.size();
    if (line.empty())
      state_ = State::done;
    else if (!base::is_token(line.substr(0, line.find(':'))) || !line.contains(':') ||
             trailer_bytes_ > kMaxTrailerBytes)
      state_ = State::failed;
  }
}

void ChunkedDecoder::end_of_size_line(std::string_view line) {
  const auto* const first = line.data();
  const auto* const last = first + line.size();
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
