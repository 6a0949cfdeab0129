#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>

// For the .cpp files of the data plane only.
namespace driftgate::route {

namespace asio = boost::asio;

/// Sockets with the concrete executor: no type erasure on the way of each read and write.
using IoExecutor = asio::io_context::executor_type;
using TcpSocket = asio::basic_stream_socket<asio::ip::tcp, IoExecutor>;
using TcpAcceptor = asio::basic_socket_acceptor<asio::ip::tcp, IoExecutor>;
using TcpResolver = asio::ip::basic_resolver<asio::ip::tcp, IoExecutor>;

template <typename T>
using Task = asio::awaitable<T, IoExecutor>;

/// co_await gives a tuple whose first element is the error code.
inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable_t<IoExecutor>());

/// What is called when a spawned coroutine has ended: an exception is a bug, which is logged.
struct LogBug {
  const char* what;  ///< has ended by it
  void operator()(const std::exception_ptr& failure) const;
};

}  // namespace driftgate::route
