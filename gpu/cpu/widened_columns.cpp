#include "gpu/cpu/widened_columns.hpp"

namespace driftgate::gpu::cpu {

RowColumns WidenedColumns::of(const RowColumns& columns) {
  if (kernel_.widen == nullptr || columns.train_dtype == columns.inf_dtype) return columns;
  RowColumns out = columns;
  const auto widen = [&](const unsigned char*& logits, const unsigned char*& next, std::uint32_t& dtype,
                         std::vector<float>& room) {
    if (dtype == DRIFTGATE_F32) return;
    if (room.size() < columns.count) room.resize(columns.count);
    kernel_.widen(logits, dtype, columns.count, room.data());
    logits = reinterpret_cast<const unsigned char*>(room.data());
    next = nullptr;
    dtype = DRIFTGATE_F32;
  };
  widen(out.train, out.next_train, out.train_dtype, train_);
  widen(out.inf, out.next_inf, out.inf_dtype, inf_);
  return out;
}

}  // namespace driftgate::gpu::cpu
