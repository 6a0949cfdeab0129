#include "daemon/pipeline/stages/spending_key.hpp"

#include <fmt/format.h>

#include "daemon/store/registry/kernels.hpp"

namespace driftgate::pipeline {

schema::Result<store::SpendingKey> spending_key(store::Store& store, const store::VersionRow& candidate,
                                                const std::string& contract, const std::string& stage) {
  auto kernel =
      store.read([&](store::Reader& reader) { return store::find_kernel(reader, candidate.kernel); });
  if (!kernel) return std::unexpected(kernel.error());
  if (!*kernel) {
    return schema::fail(schema::ErrorCode::corrupt,
                        fmt::format("kernel {} of version {} is not stored", candidate.kernel, candidate.id));
  }
  return store::SpendingKey{candidate.checkpoint, (*kernel)->digest, contract, stage};
}

}  // namespace driftgate::pipeline
