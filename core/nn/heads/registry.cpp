// The list of heads; a new head adds its line here.
#include <algorithm>

#include "core/nn/heads/heads.h"
#include "core/ops/elementwise.h"
#include "core/ops/gather_rows.h"

namespace copylab::nn {

const std::vector<HeadEntry>& head_registry() {
  static const std::vector<HeadEntry> entries = {vanilla_head(), copy_paste_head(), pointer_sentinel_head(),
                                                 mixture_of_softmaxes_head()};
  return entries;
}

const HeadEntry& find_head(const std::string& name) {
  for (const HeadEntry& entry : head_registry())
    if (name == entry.name) return entry;
  throw Error("[head] no head is named " + name);
}

Tensor training_loss(Tape& tape, const HeadOutput& out) {
  return add_losses(tape, out.nll, out.aux);
}

Tensor select_rows(Tape& tape, const Tensor& x, const std::vector<int32_t>& rows) {
  if (static_cast<int64_t>(rows.size()) == x.dim(0)) return x;  // rows are ascending and distinct
  return ops::gather_rows(tape, x, tape.constant(rows, {static_cast<int64_t>(rows.size())}));
}

Tensor column(Tape& tape, const Tensor& x, int64_t c) {
  const int64_t n = x.dim(0), columns = x.dim(1);
  std::vector<int32_t> index(n);
  for (int64_t i = 0; i < n; ++i) index[i] = static_cast<int32_t>(i * columns + c);
  return ops::gather_rows(tape, x.reshape({n * columns, 1}), tape.constant(index, {n})).reshape({n});
}

Tensor add_losses(Tape& tape, const Tensor& a, const Tensor& b) {
  if (!a) return b;
  return b ? ops::add(tape, a, b) : a;
}

double mean_keys(int64_t length, int64_t window) {
  const double t = static_cast<double>(length);
  const double w = window > 0 ? static_cast<double>(std::min(window, length)) : t;
  return w - w * (w - 1) / (2 * t);  // the first w - 1 positions see fewer
}

}  // namespace copylab::nn
