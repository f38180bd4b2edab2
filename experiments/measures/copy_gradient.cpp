// copy_gradient: how much of the gradient of the pointer's scores reaches the hidden states, by path.
#include "experiments/measures/copy_gradient.h"

#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "core/random.h"
#include "experiments/measures/statistics.h"

namespace copylab {
namespace {

constexpr double kExact = 1e-6;
constexpr double kThresholds[] = {kExact, 0.01, 0.05, 0.1};  // of the definitions before transmission
constexpr double kQkNormEps = 1e-6;  // of the head; the check against its loss sees it

// `parts` are the gradient's components along the left singular vectors, in the order of `singular`.
Kept kept_of(const Eigen::VectorXd& singular, const Eigen::VectorXd& parts, double norm) {
  Kept kept{};
  const double top = singular.size() > 0 ? singular.maxCoeff() : 0;
  if (top == 0) return kept;
  for (int64_t i = 0; i < singular.size(); ++i) {
    const double square = parts[i] * parts[i];
    for (int d = 0; d < kDefinitions - 1; ++d)
      if (singular[i] > kThresholds[d] * top) kept[d] += square;
    kept[kDefinitions - 1] += square * singular[i] * singular[i] / (top * top);
  }
  for (double& x : kept) x = std::sqrt(x) / norm;
  return kept;
}

Matrix gaussian(int64_t rows, int64_t columns, uint64_t seed) {
  const Random random(seed, "copy_gradient.control", static_cast<uint64_t>(rows));
  Matrix m(rows, columns);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = random.normal(i);
  return m;
}

}  // namespace

const std::vector<std::string>& kept_definitions() {
  static const std::vector<std::string> names = {"exact", "tau_1", "tau_5", "tau_10", "transmission"};
  return names;
}

Jacobian::Jacobian(const Matrix& a) {
  // A thin QR of the taller side first: the decomposition is then of a small square.
  const bool tall = a.rows() >= a.cols();
  const int64_t small = std::min(a.rows(), a.cols());
  const Eigen::MatrixXd taller = tall ? Eigen::MatrixXd(a) : Eigen::MatrixXd(a.transpose());
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(taller);
  const Eigen::MatrixXd r = qr.matrixQR().topRows(small).template triangularView<Eigen::Upper>();
  if (tall) {
    const Eigen::BDCSVD<Eigen::MatrixXd> svd(r, Eigen::ComputeFullU);
    singular_ = svd.singularValues();
    left_ = Eigen::MatrixXd::Zero(a.rows(), small);
    left_.topRows(small) = svd.matrixU();
    left_.applyOnTheLeft(qr.householderQ());
  } else {  // A = Rᵀ Qᵀ
    const Eigen::BDCSVD<Eigen::MatrixXd> svd(r, Eigen::ComputeFullV);
    singular_ = svd.singularValues();
    left_ = svd.matrixV();
  }
}

Kept Jacobian::kept(const Eigen::VectorXd& gradient) const {
  return kept_of(singular_, left_.transpose() * gradient, gradient.norm());
}

Kept kept_of_orthogonal_rows(const Eigen::VectorXd& norms, const Eigen::VectorXd& gradient) {
  return kept_of(norms, gradient, gradient.norm());
}

ScoreGradient score_gradient(const Eigen::VectorXd& scores, const Eigen::VectorXd& values, double alpha,
                             double lm_probability) {
  Eigen::VectorXd a = (scores.array() - scores.maxCoeff()).exp();
  a /= a.sum();
  const double m = a.dot(values), p = (1 - alpha) * lm_probability + alpha * m;
  return {p, -alpha / p * a.array() * (values.array() - m)};
}

Matrix Projection::apply(const Matrix& h) const {
  Matrix y = h * m.transpose();
  if (normalised)
    for (int64_t i = 0; i < y.rows(); ++i)
      y.row(i) *= gain / std::sqrt(y.row(i).squaredNorm() / static_cast<double>(y.cols()) + kQkNormEps);
  return y;
}

Matrix Projection::pull_back(const Matrix& h, const Matrix& y) const {
  if (!normalised) return y * m;
  const Matrix u = h * m.transpose();
  const double dim = static_cast<double>(u.cols());
  Matrix x = y;
  for (int64_t i = 0; i < x.rows(); ++i) {
    const auto ui = u.row(u.rows() == 1 ? 0 : i);
    const double rho2 = ui.squaredNorm() / dim + kQkNormEps;
    x.row(i) = gain / std::sqrt(rho2) * (y.row(i) - ui * (ui.dot(y.row(i)) / (dim * rho2)));
  }
  return x * m;
}

CopyHead copy_head(const MeasureInput& in, const nn::Model& model) {
  const auto parameter = [&](const std::string& name) {
    const Tensor* t = find_parameter(model, name);
    expect_config(t != nullptr, "[copy_gradient] a Copy-Paste head expected: the model has no {}", name);
    const int64_t rows = t->shape().rank() == 2 ? t->dim(0) : 1;
    return host_matrix(in.backend, t->reshape({rows, t->size() / rows}));
  };
  CopyHead head;
  const bool normalised = in.settings.flag("head.qk_norm");
  head.query = {parameter("copy_head.q.weight"), normalised,
                normalised ? parameter("copy_head.q_gain")(0, 0) : 1.0};
  head.key = {parameter("copy_head.k.weight"), normalised, 1.0};
  if (in.settings.text("head.sink") != "off") head.sink = parameter("copy_head.sink").row(0);
  head.sink_returns = in.settings.text("head.sink") == "on";
  head.reach = pointer_reach(in.settings);
  return head;
}

PointerGradient pointer_gradient(const CopyHead& head, const PointerTrace& trace) {
  const int64_t sinks = head.sink.size() > 0 ? 1 : 0;
  const Matrix q = head.query.apply(trace.h), k = head.key.apply(trace.h);
  PointerGradient result{1.0 / std::sqrt(static_cast<double>(q.cols())), {}};
  for (int64_t t = 0; t < trace.length(); ++t) {
    PointerGradient::Row& row = result.rows.emplace_back();
    if (trace.targets[t] < 0) continue;
    const std::vector<int64_t> keys = head.reach.keys(trace, t);
    const int64_t n = static_cast<int64_t>(keys.size());
    if (n == 0) continue;
    const double lm_probability = std::exp(-trace.lm_nll[t]);
    Matrix sources(n + sinks, q.cols());
    Eigen::VectorXd values(n + sinks);
    for (int64_t i = 0; i < n; ++i) {
      sources.row(i) = k.row(keys[i]);
      values[i] = trace.tokens[keys[i] + head.reach.shift] == trace.targets[t];
    }
    if (sinks) {
      sources.row(n) = head.sink.transpose();
      values[n] = head.sink_returns ? lm_probability : 0.0;
    }
    const ScoreGradient found = score_gradient(result.scale * (sources * q.row(t).transpose()), values,
                                               trace.gate[t], lm_probability);
    const double nll = -std::log(found.p);
    expect_config(
        agrees(nll, trace.nll[t]),
        "[copy_gradient] a head whose loss is the Copy-Paste mixture's expected: its -log p is {}, the "
        "mixture's {}",
        trace.nll[t], nll);
    if (found.gradient.norm() > 0) row = {keys, std::move(sources), found.gradient};
  }
  return result;
}

namespace {

// Means over sequences at chosen positions, of the model's Jacobian and of a Gaussian one.
struct Path {
  explicit Path(size_t positions) : kept(positions), random(positions), count(positions), rows(positions) {}
  std::vector<Kept> kept, random;
  std::vector<double> count, rows;
  void add(size_t position, int64_t n, const Kept& found, const Kept& control) {
    for (int d = 0; d < kDefinitions; ++d) {
      kept[position][d] += found[d];
      random[position][d] += control[d];
    }
    count[position] += 1;
    rows[position] += static_cast<double>(n);
  }
};

class CopyGradient {
 public:
  CopyGradient(const MeasureInput& in)
      : in_(in),
        positions_(half_octaves(trace_length(in, in.model))),
        has_pointer_(find_parameter(in.model, "copy_head.q.weight") && in.settings.has("head.qk_norm")),
        lm_(positions_.size()),
        query_(positions_.size()),
        key_(positions_.size()),
        key_pair_(positions_.size()) {
    w_ = output_matrix(in, in.model);
    lm_jacobian_.emplace(w_);
    if (has_pointer_) head_ = copy_head(in, in.model);
  }

  void add(const PointerTrace& trace) {
    add_lm(trace);
    if (has_pointer_) add_pointer(trace);
  }
  void report(MeasureOutput& out) const;

 private:
  void add_lm(const PointerTrace& trace);
  void add_pointer(const PointerTrace& trace);
  void report_scalars(const std::string& name, const Path& path, MeasureOutput& out) const;

  // The control of a shape; drawn once and kept.
  const Jacobian& control(int64_t rows, int64_t columns) {
    const auto at = std::make_pair(rows, columns);
    auto found = controls_.find(at);
    if (found == controls_.end()) found = controls_.emplace(at, gaussian(rows, columns, in_.seed)).first;
    return found->second;
  }

  const MeasureInput& in_;
  std::vector<int64_t> positions_;  // 1-based: tokens read, or the place of a key
  bool has_pointer_;
  CopyHead head_;
  Matrix w_;
  std::optional<Jacobian> lm_jacobian_;
  std::map<std::pair<int64_t, int64_t>, Jacobian> controls_;
  Path lm_, query_, key_, key_pair_;
};

void CopyGradient::add_lm(const PointerTrace& trace) {
  for (size_t i = 0; i < positions_.size(); ++i) {
    const int64_t t = positions_[i] - 1;
    if (trace.targets[t] < 0) continue;
    HeadSample one{trace.h.row(t), {}, {trace.targets[t]}};
    Matrix g = trace.h.row(t) * w_.transpose();
    logits_to_gradient(one, 0, g);
    const Eigen::VectorXd gradient = g.row(0);
    if (gradient.norm() == 0) continue;
    lm_.add(i, w_.rows(), lm_jacobian_->kept(gradient), control(w_.rows(), w_.cols()).kept(gradient));
  }
}

void CopyGradient::add_pointer(const PointerTrace& trace) {
  const int64_t length = trace.length(), dim = trace.h.cols();
  const int64_t sinks = head_.sink.size() > 0 ? 1 : 0;
  const Matrix q = head_.query.apply(trace.h);
  const PointerGradient g = pointer_gradient(head_, trace);
  for (size_t i = 0; i < positions_.size(); ++i) {
    const int64_t at = positions_[i] - 1;
    if (const PointerGradient::Row& row = g.rows[at]; !row.keys.empty()) {
      const int64_t n = row.gradient.size();
      const Jacobian query(head_.query.pull_back(trace.h.row(at), g.scale * row.sources));
      query_.add(i, n, query.kept(row.gradient), control(n, dim).kept(row.gradient));
      // To the keys of this row alone: each score has a hidden state of its own, the sink has none.
      Matrix states(n - sinks, dim);
      for (int64_t j = 0; j < n - sinks; ++j) states.row(j) = trace.h.row(row.keys[j]);
      Eigen::VectorXd norms = Eigen::VectorXd::Zero(n), random = norms;
      const Matrix queries = g.scale * q.row(at).replicate(n - sinks, 1);
      norms.head(n - sinks) = head_.key.pull_back(states, queries).rowwise().norm();
      random.head(n - sinks) = gaussian(n - sinks, dim, in_.seed).rowwise().norm();
      key_pair_.add(i, n, kept_of_orthogonal_rows(norms, row.gradient),
                    kept_of_orthogonal_rows(random, row.gradient));
    }
    // To one key, from all rows that may point at it.
    std::vector<int64_t> readers;
    std::vector<double> parts;
    for (int64_t t = at; t < length; ++t) {
      const std::vector<int64_t>& keys = g.rows[t].keys;
      const auto found = std::lower_bound(keys.begin(), keys.end(), at);
      if (found == keys.end() || *found != at) continue;
      readers.push_back(t);
      parts.push_back(g.rows[t].gradient[found - keys.begin()]);
    }
    const int64_t n = static_cast<int64_t>(readers.size());
    const Eigen::VectorXd gradient = Eigen::Map<const Eigen::VectorXd>(parts.data(), n);
    if (n == 0 || gradient.norm() == 0) continue;
    Matrix queries(n, q.cols());
    for (int64_t r = 0; r < n; ++r) queries.row(r) = g.scale * q.row(readers[r]);
    const Jacobian key(head_.key.pull_back(trace.h.row(at), queries));
    key_.add(i, n, key.kept(gradient), control(n, dim).kept(gradient));
  }
}

void CopyGradient::report(MeasureOutput& out) const {
  std::vector<std::pair<std::string, const Path*>> paths = {{"lm", &lm_}};
  if (has_pointer_) {
    paths.push_back({"query", &query_});
    paths.push_back({"key", &key_});
    paths.push_back({"key_pair", &key_pair_});
  }
  std::vector<std::string> names;
  std::vector<double> kept, random, rows;
  for (const auto& [name, path] : paths) {
    names.push_back(name);
    for (int d = 0; d < kDefinitions; ++d)
      for (size_t i = 0; i < positions_.size(); ++i) {
        kept.push_back(path->kept[i][d] / path->count[i]);
        random.push_back(path->random[i][d] / path->count[i]);
      }
    for (size_t i = 0; i < positions_.size(); ++i) rows.push_back(path->rows[i] / path->count[i]);
    report_scalars(name, *path, out);
  }
  const int64_t p = static_cast<int64_t>(names.size()), n = static_cast<int64_t>(positions_.size());
  out.label("path", names);
  out.label("definition", kept_definitions());
  out.coordinate("position", std::vector<double>(positions_.begin(), positions_.end()));
  const std::vector<std::string> dims = {"path", "definition", "position"};
  out.array(
      "kept", kept, {p, kDefinitions, n}, dims,
      "share of the gradient's norm that passes, mean over sequences; NaN where none had a gradient. lm: "
      "logits to h_t; query: scores of row t to h_t; key: scores of all rows for key j to h_j; key_pair: "
      "scores of row t to all h_j; position is t + 1, for key j + 1");
  out.array("random", random, {p, kDefinitions, n}, dims,
            "likewise with a Gaussian matrix of the same shape");
  out.array("rows", rows, {p, n}, {"path", "position"}, "logits or scores whose gradient it is, mean");
}

void CopyGradient::report_scalars(const std::string& name, const Path& path, MeasureOutput& out) const {
  const std::vector<double> at(positions_.begin(), positions_.end());
  for (int d = 0; d < kDefinitions; ++d) {
    const std::string prefix = name + "_" + kept_definitions()[d];
    std::vector<double> rounded;  // to nine digits: shares that are 1 but for rounding are equal
    double early = 0, sum = 0, random = 0, count = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      const double mean = path.kept[i][d] / path.count[i];
      rounded.push_back(std::round(mean * 1e9) / 1e9);
      if (path.count[i] == 0) continue;
      if (2 * positions_[i] < in_.model.dim()) early = std::max(early, mean);
      sum += mean;
      random += path.random[i][d] / path.count[i];
      count += 1;
    }
    out.scalar(prefix + "_mean", sum / count, "kept share, mean over the positions");
    out.scalar(prefix + "_early", early, "kept share, largest among positions below D/2");
    out.scalar(prefix + "_last", rounded.back(), "kept share at the last position");
    out.scalar(prefix + "_spearman", spearman(at, rounded),
               "rank correlation of the kept share with position; NaN: no variation");
    out.scalar(prefix + "_over_random", (sum - random) / count,
               "kept share less that of a Gaussian matrix of the same shape, mean over the positions");
  }
}

std::vector<Field> fields() {
  return {{"measure.copy_gradient.sequences", int64_t{8}, "sequences of the test split", 1, 1 << 16}};
}

void run(const MeasureInput& in, MeasureOutput& out) {
  CopyGradient gradient(in);
  for_each_trace(in, in.model, in.settings.integer("measure.copy_gradient.sequences"),
                 [&](const PointerTrace& trace) { gradient.add(trace); });
  gradient.report(out);
}

// Singular vectors of Jacobians (rows, D) take some ten times rows·D² operations: of V rows once for the
// model and once for its control; of up to T rows for queries and keys at each position, whose controls are
// kept.
double plan(const MeasureInput& in) {
  expect_one_softmax(in.model);
  const double sequences = static_cast<double>(in.settings.integer("measure.copy_gradient.sequences"));
  const double vocab = static_cast<double>(in.task.vocab()), dim = static_cast<double>(in.model.dim());
  double rows = 2 * vocab;
  for (const int64_t position : half_octaves(in.task.length()))
    rows += (sequences + 1) * static_cast<double>(in.task.length() + position);
  return in.pass_flops(sequences) + 10 * kDouble * rows * dim * dim;
}

}  // namespace

const MeasureEntry copy_gradient_measure = {
    "copy_gradient", "share of the pointer's score gradient that passes to queries and keys (C25-C28)",
    fields, run, plan};

}  // namespace copylab
