// Measures of the gradient bottleneck: against dense formulas on small cases, and at answers known
// beforehand.
#include <Eigen/LU>
#include <Eigen/SVD>
#include <cmath>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/random.h"
#include "experiments/check/check_settings.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/measures/gradient_rank.h"
#include "experiments/measures/head_gradient.h"
#include "experiments/measures/two_dimensions.h"
#include "experiments/measures/update_efficiency.h"
#include "experiments/measures/update_rank.h"
#include "tasks/spamlang.h"
#include "tests/catch.h"
#include "tests/experiments/measures/tiny_settings.h"

using namespace copylab;

namespace {

Matrix random_matrix(int64_t rows, int64_t columns, uint64_t seed, double scale = 1.0) {
  const Random random(seed, "test_measures");
  Matrix m(rows, columns);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = scale * random.normal(i);
  return m;
}

HeadSample random_sample(int64_t positions, int64_t vocab, int64_t dim, uint64_t seed, double scale = 1.0) {
  const Random random(seed, "test_measures.targets");
  HeadSample s = {random_matrix(positions, dim, seed), random_matrix(vocab, dim, seed + 1000, scale), {}};
  for (int64_t i = 0; i < positions; ++i) s.targets.push_back(static_cast<int32_t>(random.below(i, vocab)));
  return s;
}

// The definitions, written out on (N, V).
Matrix dense_logits(const HeadSample& s) {
  return s.h * s.w.transpose();
}
double dense_loss(const HeadSample& s, const Matrix& l) {
  double loss = 0;
  for (int64_t i = 0; i < l.rows(); ++i) loss += std::log(l.row(i).array().exp().sum()) - l(i, s.targets[i]);
  return loss / static_cast<double>(l.rows());
}
Matrix dense_gradient(const HeadSample& s) {
  Matrix g = dense_logits(s).array().exp();
  for (int64_t i = 0; i < g.rows(); ++i) {
    g.row(i) /= g.row(i).sum();
    g(i, s.targets[i]) -= 1;
  }
  return g / static_cast<double>(g.rows());
}
int64_t dense_rank(const Matrix& m, double tolerance) {
  return numerical_rank(Eigen::JacobiSVD<Eigen::MatrixXd>(m).singularValues(), tolerance);
}

}  // namespace

TEST_CASE("the logit gradient is that of the mean cross-entropy", "[measures]") {
  HeadSample s = random_sample(7, 5, 3, 1);
  const Matrix expected = dense_gradient(s);
  Matrix g = logits(s, 0, 7);
  CHECK(logits_to_gradient(s, 0, g) / 7 == Approx(dense_loss(s, dense_logits(s))).epsilon(1e-13));
  CHECK((g - expected).cwiseAbs().maxCoeff() < 1e-15);
  // Central differences of the loss itself.
  Matrix l = dense_logits(s);
  for (int64_t i = 0; i < l.size(); ++i) {
    const double keep = l.data()[i], eps = 1e-6;
    l.data()[i] = keep + eps;
    const double up = dense_loss(s, l);
    l.data()[i] = keep - eps;
    CHECK(g.data()[i] == Approx((up - dense_loss(s, l)) / (2 * eps)).margin(1e-9));
    l.data()[i] = keep;
  }
  // Rows that start in the middle, and a position that is learnt to 1 - 1e-17.
  Matrix part = logits(s, 4, 2);
  logits_to_gradient(s, 4, part);
  CHECK((part - expected.middleRows(4, 2)).cwiseAbs().maxCoeff() < 1e-15);
  HeadSample sure = {Matrix::Constant(1, 1, 40.0), Matrix::Zero(2, 1), {0}};
  sure.w(0, 0) = 1;
  Matrix tiny = logits(sure, 0, 1);
  logits_to_gradient(sure, 0, tiny);
  CHECK(tiny(0, 0) == Approx(-std::exp(-40.0)).epsilon(1e-12));
  CHECK(tiny(0, 1) == Approx(std::exp(-40.0)).epsilon(1e-12));
}

TEST_CASE("head_gradient agrees with the dense projector", "[measures]") {
  const HeadSample s = random_sample(150, 37, 5, 2);
  const HeadGradient found = head_gradient(s);
  const Matrix g = dense_gradient(s);
  const Matrix projector = s.w * (s.w.transpose() * s.w).inverse() * s.w.transpose();
  const Matrix visible = g * projector;
  CHECK(found.rank == 5);
  CHECK(found.r == Approx((g - visible).norm() / g.norm()).epsilon(1e-12));
  CHECK(found.c == Approx(g.cwiseProduct(visible).sum() / (g.norm() * visible.norm())).epsilon(1e-12));
  CHECK(found.r * found.r + found.c * found.c == Approx(1.0).epsilon(1e-12));
  double mean = 0, square = 0;
  for (int64_t i = 0; i < 150; ++i) {
    const double r = (g.row(i) - visible.row(i)).norm() / g.row(i).norm();
    mean += r / 150;
    square += r * r / 150;
  }
  CHECK(found.token_r_mean == Approx(mean).epsilon(1e-12));
  CHECK(found.token_r_std == Approx(std::sqrt(square - mean * mean)).epsilon(1e-8));
}

TEST_CASE("head_gradient: nothing is lost when V <= D", "[measures]") {
  for (const int64_t dim : {6, 9}) {
    const HeadGradient g = head_gradient(random_sample(40, 6, dim, 3));
    CHECK(g.rank == 6);
    CHECK(g.r < 1e-12);
    CHECK(g.c == Approx(1.0).epsilon(1e-12));
  }
}

TEST_CASE("head_gradient: a random matrix loses what the isotropic null says", "[measures]") {
  // 1 - r² is a mean over 512 positions of values with mean D/V and relative spread about sqrt(2/D).
  const HeadSample s = random_sample(512, 1024, 32, 4, 0.05);
  const HeadGradient g = head_gradient(s);
  CHECK(g.c * g.c == Approx(32.0 / 1024).epsilon(5 * std::sqrt(2.0 / 32 / 512)));
}

TEST_CASE("head_gradient: a matrix of lower rank has a smaller subspace", "[measures]") {
  HeadSample s = random_sample(60, 30, 8, 5);
  s.w = random_matrix(30, 3, 6) * random_matrix(3, 8, 7);
  const HeadGradient found = head_gradient(s);
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(s.w, Eigen::ComputeThinU);
  const Eigen::MatrixXd basis = svd.matrixU().leftCols(3), g = dense_gradient(s);
  CHECK(found.rank == 3);
  CHECK(found.r == Approx((g - g * basis * basis.transpose()).norm() / g.norm()).epsilon(1e-12));
}

TEST_CASE("a gradient inside or outside of the columns of W is kept or lost whole", "[measures]") {
  // V = 3, uniform softmax, all targets 0: G rows are (-2, 1, 1) / 3 up to scale.
  HeadSample s = {Matrix::Zero(4, 1), Matrix(3, 1), {0, 0, 0, 0}};
  s.w << -2, 1, 1;
  CHECK(head_gradient(s).r < 1e-15);
  s.w << 0, 1, -1;
  CHECK(head_gradient(s).r == Approx(1.0).epsilon(1e-15));
  CHECK(head_gradient(s).c < 1e-15);
}

TEST_CASE("singular values of a row stream are those of the whole matrix", "[measures]") {
  for (const int64_t rows : {3, 11, 60}) {
    const Matrix m = random_matrix(rows, 11, 20 + rows);
    RowStreamSvd stream(11);
    for (int64_t first = 0; first < rows; first += 5)
      stream.append(m.middleRows(first, std::min<int64_t>(5, rows - first)));
    const Eigen::VectorXd expected = Eigen::JacobiSVD<Eigen::MatrixXd>(m).singularValues();
    REQUIRE(stream.singular_values().size() == std::min<int64_t>(rows, 11));
    CHECK((stream.singular_values() - expected).norm() < 1e-12 * expected.norm());
  }
  // Of rank 4, over many reductions: the zeros stay at rounding.
  const Matrix low = random_matrix(90, 4, 31) * random_matrix(4, 11, 32);
  RowStreamSvd stream(11);
  for (int64_t first = 0; first < 90; first += 9) stream.append(low.middleRows(first, 9));
  CHECK(numerical_rank(stream.singular_values(), 1e-10) == 4);
}

TEST_CASE("components hold a share of the norm", "[measures]") {
  Eigen::VectorXd s(4);
  s << 3, 2, 2, 1;  // squared norm 18: partial sums 9, 13, 17, 18
  CHECK(components_for(s, 0.7) == 1);
  CHECK(components_for(s, 0.71) == 2);
  CHECK(components_for(s, std::sqrt(13.5 / 18)) == 3);
  CHECK(components_for(s, 1.0) == 4);
}

TEST_CASE("update_rank: a step has rank at most 2D, and the gradient more", "[measures]") {
  const HeadSample s = random_sample(60, 50, 4, 8);
  const UpdateRank u = update_rank(s, 0.3, 1e-10);
  CHECK(u.first_order == 8);
  CHECK(u.finite == 8);
  CHECK(u.gradient == dense_rank(dense_gradient(s), 1e-10));
  CHECK(u.gradient > 40);

  const Eigen::VectorXd sv = Eigen::JacobiSVD<Eigen::MatrixXd>(dense_gradient(s)).singularValues();
  CHECK(u.unreachable == Approx(sv.tail(sv.size() - 8).norm() / sv.norm()).epsilon(1e-10));

  // The true change, by moving H and W and subtracting the logits.
  const Matrix g = dense_gradient(s);
  const double eta = 0.3 * s.w.norm() / (g.transpose() * s.h).norm();
  const Matrix moved = (s.h - eta * g * s.w) * (s.w - eta * g.transpose() * s.h).transpose();
  const Matrix change = moved - dense_logits(s);
  const Matrix first = -eta * (g * s.w * s.w.transpose() + s.h * s.h.transpose() * g);
  CHECK(dense_rank(change, 1e-10) == 8);
  CHECK(u.curvature == Approx((change - first).norm() / change.norm()).epsilon(1e-10));
}

TEST_CASE("update_rank: with V <= 2D nothing is out of reach", "[measures]") {
  const UpdateRank u = update_rank(random_sample(40, 8, 4, 9), 0.1, 1e-10);
  CHECK(u.gradient == 7);
  CHECK(u.unreachable < 1e-15);
}

TEST_CASE("update_efficiency agrees with dense steps of equal norm", "[measures]") {
  const HeadSample s = random_sample(100, 40, 6, 10, 0.5);
  const std::vector<double> norms = {1e-4, 0.2};
  const UpdateEfficiency e = update_efficiency(s, norms);
  const Matrix l = dense_logits(s), g = dense_gradient(s);
  const Matrix hidden = g * s.w * s.w.transpose(), output = s.h * s.h.transpose() * g;
  const Matrix directions[] = {hidden, output, hidden + output};
  const double loss = dense_loss(s, l);
  const auto decrease = [&](const Matrix& u, double norm) {
    return loss - dense_loss(s, l - u * (norm * std::sqrt(100.0) / u.norm()));
  };
  CHECK(e.loss == Approx(loss).epsilon(1e-13));
  for (size_t i = 0; i < 2; ++i) {
    CHECK(e.direct[i] == Approx(decrease(g, norms[i])).epsilon(1e-8));
    for (size_t p = 0; p < 3; ++p)
      CHECK(e.by_path[p * 2 + i] == Approx(decrease(directions[p], norms[i])).epsilon(1e-8));
  }
  for (size_t p = 0; p < 3; ++p) {
    const double cosine = g.cwiseProduct(directions[p]).sum() / (g.norm() * directions[p].norm());
    CHECK(e.cosine[p] == Approx(cosine).epsilon(1e-12));
    // Small steps: the ratio of decreases tends to the cosine.
    CHECK(e.by_path[p * 2] / e.direct[0] == Approx(cosine).epsilon(1e-3));
    CHECK(cosine < 1);
  }
}

TEST_CASE("update_efficiency: orthonormal W with V = D makes the hidden path the direct one", "[measures]") {
  HeadSample s = random_sample(30, 5, 5, 11);
  s.w.setIdentity();
  const UpdateEfficiency e = update_efficiency(s, {0.1});
  CHECK(e.cosine[0] == Approx(1.0).epsilon(1e-14));
  CHECK(e.by_path[0] == Approx(e.direct[0]).epsilon(1e-12));
}

TEST_CASE("two_dimensions: the circle puts every token on top in float64", "[measures]") {
  for (const int64_t vocab : {2, 3, 17, 1000, 4096}) {
    const CircleHead circle = circle_head<double>(vocab);
    CHECK(circle.accuracy == 1.0);
    CHECK(circle.margin == Approx(1 - std::cos(2 * M_PI / vocab)).epsilon(1e-6));
  }
  // The negative control: float32 cannot hold a margin of 1e-7 below logits near 1.
  CHECK(circle_head<float>(16384).accuracy < 1.0);
}

TEST_CASE("a head sample reproduces the cross-entropy of the model's own LM head", "[measures]") {
  // Markers of `interleave` leave positions without label: only labelled ones are sampled.
  const auto task = spamlang_task.make(task_settings(
      spamlang_task,
      {{"task.vocab", int64_t{21}}, {"task.length", int64_t{9}}, {"task.interleave", int64_t{3}}}));
  struct Case {
    std::string head;
    bool tied;
    int64_t rank;
  };
  for (const Case& c : {Case{"vanilla", true, 0}, Case{"vanilla", false, 0}, Case{"vanilla", false, 3},
                        Case{"copy_paste", true, 0}, Case{"copy_paste", false, 0}}) {
    INFO(c.head << " tied " << c.tied << " rank " << c.rank);
    const Settings settings = tiny_settings(c.head, c.tied, c.rank);
    nn::Model model(cpu_backend(), DType::f64, settings, task->vocab(), task->length());
    model.allocate();
    model.initialise(3);
    const MeasureInput in = {model, nullptr, *task, settings, cpu_backend(), 5};
    const int64_t positions = 16 * 5;  // one test batch
    const HeadSample sample = sample_head(in, model, positions);
    Matrix rows = logits(sample, 0, positions);
    const double loss = logits_to_gradient(sample, 0, rows);

    const Batch batch = task->batch(Split::test, 5, 0, 16);
    Tape tape(cpu_backend());
    tape.begin({.record = false, .training = false});
    nn::ModelInput head;
    head.tokens = tape.constant(batch.tokens, {16, 9});
    head.targets = tape.constant(batch.targets, {16, 9});
    const auto nll = to_host<double>(cpu_backend(), model.forward(tape, head).lm_nll);
    REQUIRE(static_cast<int64_t>(nll.size()) == positions);
    CHECK(loss == Approx(std::accumulate(nll.begin(), nll.end(), 0.0)).epsilon(1e-12));
    // More positions than one batch holds, and fewer.
    CHECK(sample_head(in, model, positions + 7).h.topRows(positions) == sample.h);
    CHECK(sample_head(in, model, 11).h == sample.h.topRows(11));
  }
}

TEST_CASE("every measure runs on a small model and describes its arrays", "[measures]") {
  const auto task = spamlang_task.make(task_settings(
      spamlang_task,
      {{"task.vocab", int64_t{40}}, {"task.length", int64_t{16}}, {"task.period", int64_t{8}}}));
  for (const std::string head : {"vanilla", "copy_paste"}) {
    const Settings settings = tiny_settings(head, false);
    nn::Model model(cpu_backend(), DType::f32, settings, 40, 16),
        initial(cpu_backend(), DType::f32, settings, 40, 16);
    for (nn::Model* m : {&model, &initial}) {
      m->allocate();
      m->initialise(m == &model ? 1 : 2);
    }
    for (const MeasureEntry& entry : measure_registry()) {
      // These read the task's settings, or meta-tokens: test_transfer.cpp, test_lengths.cpp,
      // test_meta_zero.cpp, test_meta_attention_entropy.cpp, test_rate_distortion.cpp.
      const std::set<std::string> others = {
          "transfer", "lengths", "meta_zero", "meta_path", "meta_attention_entropy", "rate_distortion"};
      if (others.count(entry.name)) continue;
      MeasureOutput out;
      entry.run({model, &initial, *task, settings, cpu_backend(), 1}, out);
      CHECK(!out.arrays.empty());
      for (const auto& [name, array] : out.arrays) {
        INFO(head << " " << entry.name << "/" << name);
        int64_t size = 1;
        for (const int64_t n : array.shape) size *= n;
        CHECK(static_cast<int64_t>(array.values.size()) == size);
        CHECK(array.dims.size() == array.shape.size());
        CHECK(!array.doc.empty());
        if (array.doc.find("NaN") == std::string::npos)
          for (const double x : array.values) CHECK(std::isfinite(x));
        for (size_t i = 0; i < array.dims.size(); ++i) {
          if (const auto it = out.coordinates.find(array.dims[i]); it != out.coordinates.end())
            CHECK(static_cast<int64_t>(it->second.size()) == array.shape[i]);
          if (const auto it = out.labels.find(array.dims[i]); it != out.labels.end())
            CHECK(static_cast<int64_t>(it->second.size()) == array.shape[i]);
        }
      }
    }
  }
}

TEST_CASE("every measure runs on streams that are pointed back at, or says why it cannot", "[measures]") {
  Settings settings = check_settings(stream_changes());
  for (const MeasureEntry& entry : measure_registry())
    for (const Field& field : entry.fields()) settings.set(field.path, field.fallback);
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = make_model(settings, *task, cpu_backend()),
             initial = make_model(settings, *task, cpu_backend());
  model->initialise(1);
  initial->initialise(2);
  std::set<std::string> refused;
  for (const MeasureEntry& entry : measure_registry()) {
    INFO(entry.name);
    MeasureOutput out;
    try {
      entry.run({*model, initial.get(), *task, settings, cpu_backend(), 1}, out);
      CHECK(!out.arrays.empty());
    } catch (const Error&) {
      refused.insert(entry.name);
    }
  }
  CHECK(refused == std::set<std::string>{"neural_cache", "head_knockout", "meta_path", "meta_cost",
                                         "meta_attention_entropy", "rate_distortion"});
}

TEST_CASE("measures are registered under their own names and fields", "[measures]") {
  std::set<std::string> names;
  for (const MeasureEntry& entry : measure_registry()) {
    CHECK(names.insert(entry.name).second);
    for (const Field& field : entry.fields())
      CHECK(field.path.rfind("measure." + std::string(entry.name) + ".", 0) == 0);
    CHECK(&find_measure(entry.name) == &entry);
  }
  CHECK_THROWS_WITH(
      find_measure("head_gradeint"),
      "[measure] a registered measure expected: got 'head_gradeint'; did you mean 'head_gradient'?");
}
