// copy_gradient: score gradients and Jacobians against finite differences, closed forms and the tape.
#include "experiments/measures/copy_gradient.h"

#include <Eigen/SVD>
#include <cmath>

#include "core/error.h"
#include "core/ops/reduce.h"
#include "core/random.h"
#include "experiments/train/trainer.h"
#include "tasks/spamlang.h"
#include "tests/catch.h"
#include "tests/experiments/measures/tiny_settings.h"

using namespace copylab;

namespace {

Matrix normal_matrix(int64_t rows, int64_t columns, uint64_t seed) {
  const Random random(seed, "test_copy_gradient");
  Matrix m(rows, columns);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = random.normal(i);
  return m;
}

// -log p of papers §2.5, variant A (sink = true) or F (no sink entry), from scores directly.
double mixture_nll(const Eigen::VectorXd& scores, const std::vector<bool>& hit, bool sink, double alpha,
                   double lm) {
  double z = 0, pi = 0, a_sink = 0;
  for (int64_t i = 0; i < scores.size(); ++i) z += std::exp(scores[i]);
  for (size_t i = 0; i < hit.size(); ++i) pi += hit[i] ? std::exp(scores[i]) / z : 0;
  if (sink) a_sink = std::exp(scores[scores.size() - 1]) / z;
  return -std::log(lm * (1 - alpha * (1 - a_sink)) + alpha * pi);
}

}  // namespace

TEST_CASE("score gradients are those of finite differences and of the closed form", "[copy_gradient]") {
  const std::vector<bool> hit = {false, true, false, true};
  const double alpha = 0.35, lm = 0.08;
  for (const bool sink : {true, false}) {
    const Eigen::VectorXd scores = normal_matrix(1, sink ? 5 : 4, 1).row(0);
    Eigen::VectorXd values = Eigen::VectorXd::Constant(scores.size(), sink ? lm : 0.0);
    for (size_t i = 0; i < hit.size(); ++i) values[i] = hit[i];
    const ScoreGradient found = score_gradient(scores, values, alpha, lm);
    CHECK(-std::log(found.p) == Approx(mixture_nll(scores, hit, sink, alpha, lm)).epsilon(1e-13));
    CHECK(std::abs(found.gradient.sum()) < 1e-14);  // a row's scores may all move together
    for (int64_t i = 0; i < scores.size(); ++i) {
      Eigen::VectorXd up = scores, down = scores;
      up[i] += 1e-6;
      down[i] -= 1e-6;
      const double slope =
          (mixture_nll(up, hit, sink, alpha, lm) - mixture_nll(down, hit, sink, alpha, lm)) / 2e-6;
      CHECK(found.gradient[i] == Approx(slope).margin(1e-9));
    }
    if (!sink) continue;
    // Papers §2.6 with m = pi + a_sink P~.
    Eigen::VectorXd a = scores.array().exp();
    a /= a.sum();
    const double m = a[1] + a[3] + a[4] * lm;
    for (int64_t i = 0; i < 4; ++i)
      CHECK(found.gradient[i] == Approx(-alpha / found.p * a[i] * ((hit[i] ? 1 : 0) - m)).epsilon(1e-12));
    CHECK(found.gradient[4] == Approx(-alpha / found.p * a[4] * (lm - m)).epsilon(1e-12));
  }
}

TEST_CASE("pull_back is the transposed Jacobian of a projection", "[copy_gradient]") {
  const Matrix h = normal_matrix(3, 6, 2), y = normal_matrix(3, 4, 3);
  for (const bool normalised : {false, true}) {
    const Projection projection{normal_matrix(4, 6, 4), normalised, 1.7};
    const Matrix pulled = projection.pull_back(h, y);
    for (int64_t i = 0; i < h.rows(); ++i)
      for (int64_t c = 0; c < h.cols(); ++c) {
        Matrix up = h.row(i), down = h.row(i);
        up(0, c) += 1e-6;
        down(0, c) -= 1e-6;
        const double slope = y.row(i).dot((projection.apply(up) - projection.apply(down)).row(0)) / 2e-6;
        CHECK(pulled(i, c) == Approx(slope).margin(1e-8));
      }
    // One hidden state for all rows.
    const Matrix shared = projection.pull_back(h.row(1), y);
    CHECK((shared.row(1) - pulled.row(1)).norm() < 1e-14);
    CHECK((shared.row(2) - projection.pull_back(h.row(1), y.row(2)).row(0)).norm() < 1e-14);
  }
}

TEST_CASE("kept shares follow their definitions", "[copy_gradient]") {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{9, 4}, {4, 9}, {5, 5}}) {
    // Singular values from 1 down to below each threshold.
    const int64_t small = std::min(rows, columns);
    const Eigen::JacobiSVD<Eigen::MatrixXd> base(normal_matrix(rows, columns, 5 + rows),
                                                 Eigen::ComputeThinU | Eigen::ComputeThinV);
    Eigen::VectorXd s(small);
    const double levels[] = {3.0, 0.24, 0.06, 3e-4, 3e-8};
    for (int64_t i = 0; i < small; ++i) s[i] = levels[i];
    const Matrix a = base.matrixU() * s.asDiagonal() * base.matrixV().transpose();
    const Eigen::VectorXd g = normal_matrix(1, rows, 6).row(0), c = base.matrixU().transpose() * g;
    const Kept kept = Jacobian(a).kept(g);
    const int64_t exact = std::min<int64_t>(small, 4);  // 3e-8 is no more than 1e-6 · 3
    CHECK(kept[0] == Approx(c.head(exact).norm() / g.norm()).epsilon(1e-9));
    CHECK(kept[1] == Approx(c.head(3).norm() / g.norm()).epsilon(1e-9));  // > 0.03
    CHECK(kept[2] == Approx(c.head(2).norm() / g.norm()).epsilon(1e-9));  // > 0.15
    CHECK(kept[3] == Approx(std::abs(c[0]) / g.norm()).epsilon(1e-9));    // > 0.3
    CHECK(kept[4] == Approx((a.transpose() * g).norm() / (3.0 * g.norm())).epsilon(1e-9));
  }
}

TEST_CASE("orthogonal rows need no decomposition", "[copy_gradient]") {
  // Block-diagonal, as scores of one row to the hidden states of its keys; the last row reaches nothing.
  Matrix a = Matrix::Zero(4, 9);
  for (int64_t i = 0; i < 3; ++i) a.block(i, 3 * i, 1, 3) = std::pow(10.0, -i) * normal_matrix(1, 3, 7 + i);
  const Eigen::VectorXd g = normal_matrix(1, 4, 11).row(0);
  const Kept fast = kept_of_orthogonal_rows(a.rowwise().norm(), g), full = Jacobian(a).kept(g);
  for (int d = 0; d < kDefinitions; ++d) CHECK(fast[d] == Approx(full[d]).epsilon(1e-10));
  CHECK(fast[0] == Approx(g.head(3).norm() / g.norm()));
}

namespace {

class HiddenStates : public Probe {
 public:
  bool wants(const std::string& name) const override { return name == "hidden"; }
  void take(const std::string&, const Tensor& value) override { h = value; }
  Tensor h;
};

// Gradient of the summed loss of one sequence with respect to its final hidden states.
Matrix hidden_gradient(nn::Model& model, const Batch& batch) {
  Tape tape(cpu_backend());
  HiddenStates probe;
  Tape::Options options;
  options.training = false;
  options.probe = &probe;
  tape.begin(options);
  const nn::HeadOutput out = model.forward(tape, model_input(tape, batch));
  tape.backward(ops::weighted_sum(tape, out.nll));
  Matrix g(probe.h.dim(0), probe.h.dim(1));
  std::copy_n(probe.h.grad<double>(), g.size(), g.data());
  model.parameters().zero_grad();
  return g;
}

}  // namespace

TEST_CASE("query and key paths add up to what blocking them takes away", "[copy_gradient]") {
  const auto task = spamlang_task.make(task_settings(
      spamlang_task,
      {{"task.vocab", int64_t{21}}, {"task.length", int64_t{12}}, {"task.interleave", int64_t{3}}}));
  const Batch batch = task->batch(Split::test, 5, 0, 1);
  for (const bool normalised : {true, false})
    for (const std::string sink : {"on", "off", "dropped"})
      for (const std::string key : {"at_key", "next"}) {
        INFO(normalised << " " << sink << " " << key);
        Settings settings = tiny_settings("copy_paste", true);
        settings.set("head.qk_norm", normalised);
        settings.set("head.sink", sink);
        settings.set("head.key_token", key);
        settings.set("head.gate", std::string("sigmoid"));
        std::map<std::string, Matrix> gradients;
        for (const std::string detach : {"none", "q", "k"}) {
          settings.set("head.detach", detach);
          nn::Model model(cpu_backend(), DType::f64, settings, task->vocab(), task->length());
          model.allocate();
          model.initialise(3);
          gradients[detach] = hidden_gradient(model, batch);
        }
        settings.set("head.detach", std::string("none"));
        nn::Model model(cpu_backend(), DType::f64, settings, task->vocab(), task->length());
        model.allocate();
        model.initialise(3);
        const MeasureInput in = {model, nullptr, *task, settings, cpu_backend(), 5};
        const CopyHead head = copy_head(in, model);
        for_each_trace(in, model, 1, [&](const PointerTrace& trace) {
          const PointerGradient g = pointer_gradient(head, trace);
          const Matrix q = head.query.apply(trace.h);
          Matrix to_query = Matrix::Zero(trace.length(), trace.h.cols()),
                 dk = Matrix::Zero(trace.length(), q.cols());
          for (int64_t t = 0; t < trace.length(); ++t) {
            const PointerGradient::Row& row = g.rows[t];
            if (row.keys.empty()) continue;
            to_query.row(t) =
                row.gradient.transpose() * head.query.pull_back(trace.h.row(t), g.scale * row.sources);
            for (size_t i = 0; i < row.keys.size(); ++i)
              dk.row(row.keys[i]) += g.scale * row.gradient[i] * q.row(t);
          }
          const Matrix to_key = head.key.pull_back(trace.h, dk);
          CHECK((to_query - (gradients["none"] - gradients["q"])).norm() < 1e-10 * to_query.norm());
          CHECK((to_key - (gradients["none"] - gradients["k"])).norm() < 1e-10 * to_key.norm());
          CHECK(to_query.norm() > 1e-6);
          CHECK(to_key.norm() > 1e-6);
        });
      }
}

TEST_CASE("copy_gradient: early positions keep all of it, and the LM head what head_gradient says",
          "[copy_gradient]") {
  const auto task = spamlang_task.make(task_settings(
      spamlang_task,
      {{"task.vocab", int64_t{40}}, {"task.length", int64_t{32}}, {"task.period", int64_t{16}}}));
  Settings settings = tiny_settings("copy_paste", false);
  settings.set("head.qk_norm", false);
  nn::Model model(cpu_backend(), DType::f64, settings, 40, 32);
  model.allocate();
  model.initialise(4);
  MeasureOutput out;
  copy_gradient_measure.run({model, nullptr, *task, settings, cpu_backend(), 1}, out);
  const MeasureOutput::Array& kept = out.arrays.at("kept");
  const std::vector<double>& position = out.coordinates.at("position");
  const int64_t n = static_cast<int64_t>(position.size());
  REQUIRE(kept.shape == std::vector<int64_t>{4, kDefinitions, n});
  const auto at = [&](const MeasureOutput::Array& array, int64_t path, int64_t definition, int64_t i) {
    return array.values[(path * kDefinitions + definition) * n + i];
  };
  for (int64_t i = 0; i < n; ++i) {
    // Keys and sink, position + 1 of them, are independent up to D = 8.
    if (position[i] + 1 <= 8) CHECK(at(kept, 1, 0, i) == Approx(1.0).epsilon(1e-9));
    if (position[i] + 1 > 16) CHECK(at(kept, 1, 0, i) < 0.999);
    for (int64_t path = 0; path < 4; ++path)
      for (int64_t d = 0; d + 1 < kDefinitions; ++d) {
        if (d > 0) CHECK(at(kept, path, d, i) <= at(kept, path, d - 1, i) + 1e-12);
        CHECK(at(kept, path, d, i) <= 1 + 1e-12);
      }
  }
  CHECK(out.arrays.at("query_exact_early").values[0] == Approx(1.0).epsilon(1e-9));
  CHECK(out.arrays.at("query_exact_spearman").values[0] < 0);
  // Of a Gaussian (40, 8) matrix about sqrt(8/40) passes.
  double random = 0;
  for (int64_t i = 0; i < n; ++i) random += at(out.arrays.at("random"), 0, 0, i) / n;
  CHECK(random == Approx(std::sqrt(8.0 / 40)).margin(0.12));
}
