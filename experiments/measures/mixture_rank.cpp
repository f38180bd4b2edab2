// mixture_rank: numerical rank of logits, of log-softmax, and of the log of a copy head's mixture.
#include "experiments/measures/mixture_rank.h"

#include <cmath>
#include <limits>

namespace copylab {

Eigen::RowVectorXd log_mixture(const PointerTrace& trace, int64_t t, const Eigen::RowVectorXd& log_softmax,
                               bool drop_sink) {
  const double gate = trace.gate[t];
  const double sink = drop_sink            ? 0.0
                      : trace.sink.empty() ? std::max(0.0, 1 - trace.weights.row(t).sum())
                                           : trace.sink[t];
  // What float32 rounds to no share at all is kept finite.
  const double lm_share = std::max<double>(1 - gate + gate * sink, std::numeric_limits<float>::min());
  // In log space, so that tokens of no weight keep their exact distance to the logits.
  Eigen::RowVectorXd log_p = log_softmax.array() + std::log(lm_share);
  Eigen::RowVectorXd pi = Eigen::RowVectorXd::Zero(log_p.size());
  const auto is_token = [&](int64_t p) { return trace.tokens[p] >= 0; };  // not before a stream's start
  for (int64_t p = 0; p <= t; ++p)
    if (is_token(p)) pi[trace.tokens[p]] += trace.weights(t, p);
  for (int64_t p = 0; p <= t; ++p) {
    const int32_t token = trace.tokens[p];
    if (!is_token(p) || pi[token] <= 0) continue;
    const double a = log_p[token], b = std::log(gate) + std::log(pi[token]);
    log_p[token] = std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
    pi[token] = 0;  // a token that occurs again has been counted
  }
  return log_p;
}

namespace {

std::vector<Field> fields() {
  return {
      {"measure.mixture_rank.contexts", int64_t{512}, "labelled positions of the test split, N", 2, 1 << 14},
      {"measure.mixture_rank.per_sequence", int64_t{32}, "of them from each sequence, evenly spaced", 1,
       1 << 14},
      {"measure.mixture_rank.columns", int64_t{8192},
       "the first tokens of the vocabulary that are columns; the softmax is over all", 2, 1 << 20},
      {"measure.mixture_rank.tolerance", 1e-5, "a singular value counts above this times the largest", 0.0,
       1.0},
  };
}

// The contexts' rows of the three matrices, cut to the columns.
struct Rows {
  Matrix logits, log_softmax, log_mixture;  // (N, columns)
  int64_t used = 0;
};

void add_rows(const PointerTrace& trace, const Matrix& w, int64_t wanted, bool drop_sink, Rows& rows) {
  std::vector<int64_t> labelled;
  for (int64_t t = 0; t < trace.length(); ++t)
    if (trace.targets[t] >= 0) labelled.push_back(t);
  const int64_t found = static_cast<int64_t>(labelled.size()), columns = rows.logits.cols();
  const int64_t take = std::min({wanted, found, rows.logits.rows() - rows.used});
  for (int64_t i = 0; i < take; ++i) {
    const int64_t t = labelled[(i + 1) * found / take - 1];
    const Eigen::RowVectorXd z = trace.h.row(t) * w.transpose();
    const double top = z.maxCoeff(), lse = top + std::log((z.array() - top).exp().sum());
    const Eigen::RowVectorXd log_softmax = z.array() - lse;
    const Eigen::RowVectorXd log_p =
        trace.has_pointer() ? log_mixture(trace, t, log_softmax, drop_sink) : log_softmax;
    const double nll = -log_p[trace.targets[t]];
    expect_config(
        agrees(nll, trace.nll[t]),
        "[mixture_rank] a head whose distribution is the LM head's mixed with copied tokens expected: its "
        "-log p is {}, the mixture's {}",
        trace.nll[t], nll);
    rows.logits.row(rows.used) = z.head(columns);
    rows.log_softmax.row(rows.used) = log_softmax.head(columns);
    rows.log_mixture.row(rows.used) = log_p.head(columns);
    ++rows.used;
  }
}

void run(const MeasureInput& in, MeasureOutput& out) {
  constexpr double kRounding = 1e-11;  // float64 products of up to some thousand terms
  const double tolerance = in.settings.real("measure.mixture_rank.tolerance");
  const int64_t contexts = in.settings.integer("measure.mixture_rank.contexts");
  const int64_t per_sequence = in.settings.integer("measure.mixture_rank.per_sequence");
  const bool drop_sink = in.settings.has("head.sink") && in.settings.text("head.sink") == "dropped";
  const Matrix w = output_matrix(in, in.model);
  const int64_t columns = std::min<int64_t>(in.settings.integer("measure.mixture_rank.columns"), w.rows());
  Rows rows{Matrix(contexts, columns), Matrix(contexts, columns), Matrix(contexts, columns)};
  bool pointer = false;
  for_each_trace(in, in.model, (contexts + per_sequence - 1) / per_sequence, [&](const PointerTrace& trace) {
    pointer = trace.has_pointer();
    add_rows(trace, w, per_sequence, drop_sink, rows);
  });
  expect(rows.used >= 2, "mixture_rank", "labelled positions expected: got {}", rows.used);

  const double dim = static_cast<double>(w.cols()), n = static_cast<double>(rows.used);
  const auto add = [&](const std::string& name, const Matrix& m, double bound, const std::string& doc) {
    const Eigen::VectorXd s = singular_values(m.topRows(rows.used));
    const double rank = static_cast<double>(numerical_rank(s, tolerance));
    out.scalar(name + "_rank", rank, "numerical rank of " + doc);
    out.scalar(name + "_rank_exact", static_cast<double>(numerical_rank(s, kRounding)),
               "likewise, counting all that is above rounding");
    out.scalar(name + "_rank_over_bound", rank / bound, "numerical rank over its bound");
    out.array(name + "_singular_values", {s.begin(), s.end()}, {s.size()}, {"component"},
              "singular values of " + doc);
  };
  out.scalar("contexts", n, "contexts N");
  out.scalar("columns", static_cast<double>(columns), "tokens that are columns");
  add("logits", rows.logits, dim, "the logits (N, columns); at most D");
  add("log_softmax", rows.log_softmax, dim + 1, "the log-probabilities of the LM head; at most D + 1");
  if (pointer) {
    // Nothing bounds it but the shape; the claim is against the 2D that one gradient step can reach.
    add("mixture", rows.log_mixture, 2 * dim, "the log-probabilities of the mixture, against 2D");
  }
}

// The passes, the logits, and the singular values of three (N, columns) matrices.
double plan(const MeasureInput& in) {
  expect_one_softmax(in.model);
  const int64_t contexts = in.settings.integer("measure.mixture_rank.contexts");
  const int64_t per_sequence = in.settings.integer("measure.mixture_rank.per_sequence");
  const double n = static_cast<double>(contexts),
               columns = static_cast<double>(
                   std::min<int64_t>(in.settings.integer("measure.mixture_rank.columns"), in.task.vocab()));
  const double m = std::min(n, columns);
  return in.pass_flops(std::ceil(n / static_cast<double>(per_sequence))) + product_flops(in, contexts) +
         3 * kDouble * (2 * n * columns * m + 4 * m * m * m);
}

}  // namespace

const MeasureEntry mixture_rank_measure = {
    "mixture_rank", "numerical rank of logits, log-softmax and log of the mixture over contexts (C1)", fields,
    run, plan};

}  // namespace copylab
