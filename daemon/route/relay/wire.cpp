#include "daemon/route/relay/wire.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace driftgate::route {
namespace {

constexpr std::size_t kSpareTexts = 32;
constexpr std::size_t kLeastSpareBytes = 4u << 10;
constexpr std::size_t kMostSpareBytes = 32u << 10;

std::vector<std::string>& spare_texts() {
  thread_local std::vector<std::string> texts = [] {
    std::vector<std::string> none;
    none.reserve(kSpareTexts);
    return none;
  }();
  return texts;
}

/// What is smaller is copied together: the kernel takes longer to read a list of pieces.
constexpr std::size_t kCopiedBytes = 4u << 10;

ssize_t send_copied(int socket, const Pieces& pieces) {
  std::array<char, kCopiedBytes> whole;
  std::size_t size = 0;
  for (const auto& piece : pieces) size += piece.copy(whole.data() + size, piece.size());
  return ::send(socket, whole.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t send_listed(int socket, const Pieces& pieces) {
  std::array<iovec, std::tuple_size_v<Pieces>> parts{};
  std::size_t count = 0;
  for (const auto& piece : pieces) {
    if (piece.empty()) continue;
    parts[count].iov_base = const_cast<char*>(piece.data());  // sendmsg does not write there
    parts[count].iov_len = piece.size();
    ++count;
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void take_off(Pieces& pieces, std::size_t sent) {
  for (auto& piece : pieces) {
    const auto taken = std::min(piece.size(), sent);
    piece.remove_prefix(taken);
    sent -= taken;
  }
}

}  // namespace

Sent send_now(TcpSocket& socket, Pieces& pieces) {
  std::size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  const auto sent = bytes <= kCopiedBytes ? send_copied(socket.native_handle(), pieces)
                                          : send_listed(socket.native_handle(), pieces);
  if (sent < 0) return errno == EAGAIN || errno == EINTR ? Sent::part : Sent::failed;
  take_off(pieces, static_cast<std::size_t>(sent));
  return static_cast<std::size_t>(sent) == bytes ? Sent::all : Sent::part;
}

Received receive_now(TcpSocket& socket, std::size_t most) {
  thread_local const auto memory = std::make_unique_for_overwrite<char[]>(kMaxReceived);
  const auto got = ::recv(socket.native_handle(), memory.get(), std::min(most, kMaxReceived), MSG_DONTWAIT);
  if (got > 0) return {Arrival::bytes, {memory.get(), static_cast<std::size_t>(got)}};
  if (got == 0) return {Arrival::end, {}};
  return {errno == EAGAIN || errno == EINTR ? Arrival::nothing : Arrival::failure, {}};
}

void append(std::string& text, std::string_view bytes) {
  if (text.empty() && text.capacity() < bytes.size() && bytes.size() <= kMostSpareBytes) {
    auto& texts = spare_texts();
    if (texts.empty()) {
      text.reserve(std::max(kLeastSpareBytes, bytes.size()));
    } else {
      text = std::move(texts.back());
      texts.pop_back();
    }
  }
  text.append(bytes);
}

void give_back(std::string&& text) noexcept {
  auto& texts = spare_texts();
  const auto bytes = text.capacity();
  std::string taken = std::move(text);
  if (bytes < kLeastSpareBytes || bytes > kMostSpareBytes || texts.size() == texts.capacity()) return;
  taken.clear();
  texts.push_back(std::move(taken));
}

std::array<asio::const_buffer, 4> buffers_of(const Pieces& pieces) {
  std::array<asio::const_buffer, 4> buffers;
  for (std::size_t i = 0; i < pieces.size(); ++i) buffers[i] = asio::buffer(pieces[i]);
  return buffers;
}

}  // namespace driftgate::route
