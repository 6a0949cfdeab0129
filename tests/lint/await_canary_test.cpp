// g++ 12.2 destroys temporaries of some co_await expressions twice. The project awaits into named locals
// first; this canary runs that form with values that own memory, so that AddressSanitizer would see a
// regression of the compiler or of the rule.
#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;

struct Parcel {
  std::string label;
  std::vector<std::string> items;
};

asio::awaitable<Parcel> pack(std::string label, std::size_t count) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, std::chrono::milliseconds(0));
  co_await timer.async_wait(asio::use_awaitable);
  Parcel parcel{std::move(label), {}};
  for (std::size_t i = 0; i < count; ++i) parcel.items.push_back(parcel.label + std::string(64, 'x'));
  co_return parcel;
}

asio::awaitable<void> run(std::size_t& total) {
  for (std::size_t round = 0; round < 50; ++round) {
    const Parcel first = co_await pack("a label longer than the small string buffer", round);
    const Parcel second = co_await pack(first.label + first.label, first.items.size());
    if (second.items.size() == round) total += second.label.size();
  }
}

}  // namespace

TEST_CASE("awaiting into named locals keeps every owned value alive exactly once") {
  asio::io_context context;
  std::size_t total = 0;
  std::exception_ptr failure;
  asio::co_spawn(context, run(total), [&failure](std::exception_ptr error) { failure = error; });
  context.run();
  CHECK(failure == nullptr);
  CHECK(total == 50 * 2 * std::string("a label longer than the small string buffer").size());
}
