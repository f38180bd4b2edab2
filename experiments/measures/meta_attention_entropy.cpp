// meta_attention_entropy: each test sequence read twice, the second time with the embeddings of its
// meta-tokens at zero (M16, M17); Theorem 4.1 on the rows found (M18); cosines in the residual stream (M19).
#include "experiments/measures/meta_attention_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/split_walk.h"
#include "experiments/measures/statistics.h"
#include "experiments/train/trainer.h"

namespace copylab {

double entropy(const std::vector<double>& p) {
  double h = 0;
  for (const double x : p)
    if (x > 0) h -= x * std::log(x);
  return h;
}

std::vector<double> boosted(const std::vector<double>& p, size_t j, double delta) {
  const double factor = std::exp(delta), sum = 1 + p[j] * (factor - 1);
  std::vector<double> out(p.size());
  for (size_t i = 0; i < p.size(); ++i) out[i] = p[i] * (i == j ? factor : 1.0) / sum;
  return out;
}

double entropy_slope(const std::vector<double>& p, size_t j) {
  return p[j] > 0 ? -p[j] * (std::log(p[j]) + entropy(p)) : 0.0;
}

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<Field> fields() {
  return {
      {"measure.meta_attention_entropy.sequences", int64_t{64}, "test sequences, each read twice", 2,
       1 << 20},
      {"measure.meta_attention_entropy.pairs", int64_t{1000},
       "pairs of an attention row and a meta-token that Theorem 4.1 is checked on, spread over the sequences",
       1, 1 << 24},
      {"measure.meta_attention_entropy.boost", 1.26,
       "logit that is added to the meta-token there (the paper's mean boost)", 1e-3, 100.0},
  };
}

// Attention and residual stream of every block, of one sequence.
class BlockProbe : public Probe {
 public:
  explicit BlockProbe(const Backend& backend) : backend_(backend) {}
  struct Block {
    int64_t heads = 0;
    std::vector<double> probs;  // (H, T, T)
    std::vector<double> lse;    // (H, T)
    std::vector<double> resid;  // (T, D)
  };
  std::map<int64_t, Block> blocks;

  bool wants(const std::string& name) const override { return !part_of(name).empty(); }
  void take(const std::string& name, const Tensor& value) override {
    Block& block = blocks[std::stoll(name.substr(7))];
    const std::string part = part_of(name);
    if (part == "attn.probs") block.heads = value.dim(1);
    (part == "attn.probs" ? block.probs
     : part == "attn.lse" ? block.lse
                          : block.resid) = values_of(backend_, value);
  }

 private:
  // What follows "blocks.{i}." if it is one of the three.
  static std::string part_of(const std::string& name) {
    if (!name.starts_with("blocks.")) return {};
    const std::string part = name.substr(name.find('.', 7) + 1);
    return part == "attn.probs" || part == "attn.lse" || part == "resid" ? part : std::string();
  }
  const Backend& backend_;
};

// Sums over rows, by block and head.
struct HeadSums {
  double rows = 0, with = 0, zeroed = 0, top_with = 0, top_zeroed = 0, on_meta = 0, visible = 0;
};

// Sums of cosines, by distance.
struct Cosines {
  std::vector<double> sum, other, count;
  explicit Cosines(int64_t length) : sum(length), other(length), count(length) {}
};

struct Found {
  int64_t heads = 0;
  std::vector<std::vector<HeadSums>> blocks;  // by block and head
  std::vector<Cosines> cosines;               // by block
  // Theorem 4.1.
  double pairs = 0, raised = 0, raised_by_boost = 0, formula_error = 0;
};

std::vector<double> row_of(const BlockProbe::Block& block, int64_t length, int64_t head, int64_t t) {
  const auto begin = block.probs.begin() + (head * length + t) * length;
  std::vector<double> row(begin, begin + t + 1);
  double sum = 0;  // float32 in the model
  for (const double p : row) sum += p;
  for (double& p : row) p /= sum;
  return row;
}

// The largest logit of a row: log p + log-sum-exp.
double top_logit(const BlockProbe::Block& block, int64_t length, int64_t head, int64_t t) {
  const auto begin = block.probs.begin() + (head * length + t) * length;
  return std::log(*std::max_element(begin, begin + t + 1)) + block.lse[head * length + t];
}

void check_theorem(const std::vector<double>& row, size_t j, double boost, Found& found) {
  constexpr double kStep = 1e-4;
  const double numeric = (entropy(boosted(row, j, kStep)) - entropy(boosted(row, j, -kStep))) / (2 * kStep);
  const double slope = entropy_slope(row, j);
  found.formula_error = std::max(found.formula_error, std::abs(numeric - slope));
  found.pairs += 1;
  found.raised += slope > 0;
  found.raised_by_boost += entropy(boosted(row, j, boost)) > entropy(row);
}

// Rows of ordinary tokens that see a meta-token. `quota`: pairs for the theorem still to be taken here.
void add_rows(const Batch& batch, const BlockProbe::Block& with, const BlockProbe::Block& zeroed,
              std::vector<HeadSums>& sums, double boost, int64_t quota, Found& found) {
  const int64_t length = batch.length;
  for (int64_t head = 0; head < with.heads; ++head)
    for (int64_t t = 0; t < length; ++t) {
      if (batch.meta[t]) continue;
      const std::vector<double> row = row_of(with, length, head, t);
      double on_meta = 0, seen = 0, meta_seen = 0;
      size_t last = 0;  // meta-token
      for (int64_t j = 0; j <= t; ++j) {
        seen += row[j] > 0;
        if (!batch.meta[j] || row[j] == 0) continue;
        on_meta += row[j];
        meta_seen += 1;
        last = static_cast<size_t>(j);
      }
      if (meta_seen == 0) continue;
      HeadSums& s = sums[head];
      s.rows += 1;
      s.with += entropy(row);
      s.zeroed += entropy(row_of(zeroed, length, head, t));
      s.top_with += top_logit(with, length, head, t);
      s.top_zeroed += top_logit(zeroed, length, head, t);
      s.on_meta += on_meta;
      s.visible += meta_seen / seen;
      if (quota-- > 0) check_theorem(row, last, boost, found);
    }
}

double cosine(const double* a, const double* b, int64_t dim) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < dim; ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// Of each meta-token with the ordinary tokens before it in its document, and with what stood at their
// positions in another sequence.
void add_cosines(const Batch& batch, const std::vector<double>& resid, const std::vector<double>& other,
                 Cosines& cosines) {
  const int64_t length = batch.length, dim = static_cast<int64_t>(resid.size()) / length;
  for (int64_t t = 0; t < length; ++t) {
    if (!batch.meta[t]) continue;
    for (int64_t j = 0; j < t; ++j) {
      if (batch.meta[j] || (!batch.segment.empty() && batch.segment[j] != batch.segment[t])) continue;
      cosines.sum[t - j] += cosine(&resid[t * dim], &resid[j * dim], dim);
      cosines.other[t - j] += cosine(&resid[t * dim], &other[j * dim], dim);
      cosines.count[t - j] += 1;
    }
  }
}

Found look(const MeasureInput& in) {
  const int64_t sequences = in.settings.integer("measure.meta_attention_entropy.sequences");
  const int64_t pairs = in.settings.integer("measure.meta_attention_entropy.pairs");
  const double boost = in.settings.real("measure.meta_attention_entropy.boost");
  Found found;
  BlockProbe before(in.backend);  // of the sequence before
  Tape tape(in.backend);
  const auto read = [&](const Batch& batch, bool zeroed) {
    BlockProbe probe(in.backend);
    tape.begin({.record = false, .training = false, .probe = &probe});
    nn::ModelInput input = model_input(tape, batch);
    if (zeroed) input.intervention.zero_embedding = input.meta;
    in.model.hidden(tape, input);
    return probe;
  };
  SplitWalk walk(in.task, Split::test, in.seed, sequences, 1);
  for (int64_t s = 0; walk.next(); ++s) {
    const Batch& batch = walk.batch();
    if (std::count(batch.meta.begin(), batch.meta.end(), 0) == static_cast<int64_t>(batch.meta.size()))
      continue;
    const BlockProbe with = read(batch, false), zeroed = read(batch, true);
    const int64_t layers = static_cast<int64_t>(with.blocks.size());
    expect_config(layers > 0 && with.blocks.at(0).heads > 0,
                  "[meta_attention_entropy] a backbone with attention heads expected");
    found.heads = with.blocks.at(0).heads;
    found.blocks.resize(layers, std::vector<HeadSums>(found.heads));
    found.cosines.resize(layers, Cosines(batch.length));
    for (int64_t i = 0; i < layers; ++i) {
      const int64_t done = s * layers + i;  // an equal share for each block of each sequence
      const int64_t quota = pairs * (done + 1) / (sequences * layers) - pairs * done / (sequences * layers);
      add_rows(batch, with.blocks.at(i), zeroed.blocks.at(i), found.blocks[i], boost, quota, found);
      if (!before.blocks.empty())
        add_cosines(batch, with.blocks.at(i).resid, before.blocks.at(i).resid, found.cosines[i]);
    }
    before.blocks = with.blocks;
  }
  double all = 0;
  for (const auto& block : found.blocks)
    for (const HeadSums& s : block) all += s.rows;
  expect(all > 0, "meta_attention_entropy", "test sequences with tokens after a meta-token expected");
  return found;
}

void report_entropy(const Found& found, MeasureOutput& out) {
  const int64_t layers = static_cast<int64_t>(found.blocks.size());
  const auto array = [&](const std::string& name, auto of, const std::string& doc) {
    std::vector<double> values;
    double sum = 0, rows = 0;
    for (const auto& block : found.blocks)
      for (const HeadSums& s : block) {
        values.push_back(s.rows > 0 ? of(s) / s.rows : kNaN);
        sum += of(s);
        rows += s.rows;
      }
    out.array(name + "_by_head", values, {layers, found.heads}, {"layer", "head"},
              doc + "; NaN: no such row");
    out.scalar(name, sum / rows, doc);
  };
  const std::string rows = ", mean over rows of ordinary tokens that see a meta-token";
  array(
      "entropy", [](const HeadSums& s) { return s.with; }, "entropy of attention, nats" + rows);
  array(
      "entropy_zeroed", [](const HeadSums& s) { return s.zeroed; },
      "the same with the embeddings of meta-tokens at zero, nats" + rows);
  array(
      "entropy_drop", [](const HeadSums& s) { return s.zeroed - s.with; },
      "entropy_zeroed minus entropy, nats" + rows);
  array(
      "logit_boost", [](const HeadSums& s) { return s.top_with - s.top_zeroed; },
      "largest attention logit minus that with the embeddings of meta-tokens at zero" + rows);
  array(
      "on_meta", [](const HeadSums& s) { return s.on_meta; }, "weight on meta-tokens" + rows);
  array(
      "on_meta_null", [](const HeadSums& s) { return s.visible; },
      "share of visible positions that are meta-tokens: their weight under uniform attention" + rows);
}

void report_theorem(const Found& found, MeasureOutput& out) {
  out.scalar(
      "formula_error", found.formula_error,
      "largest difference between dH/dDelta = -p (log p + H) and a finite difference, over pairs of an "
      "attention row and the last meta-token that it sees");
  out.scalar(
      "raised", found.raised / found.pairs,
      "share of these pairs with p < exp(-H), where a small boost of the meta-token raises the entropy");
  out.scalar("raised_by_boost", found.raised_by_boost / found.pairs,
             "share of these pairs where a boost by measure.meta_attention_entropy.boost raises the entropy");
  out.scalar("pairs", found.pairs, "such pairs");
}

void report_cosines(const Found& found, int64_t length, MeasureOutput& out) {
  const int64_t layers = static_cast<int64_t>(found.blocks.size());
  const std::vector<int64_t> bins = half_octaves(length);
  const int64_t n = static_cast<int64_t>(bins.size());
  std::vector<double> cosines, others, correlations, distances;
  for (int64_t d = 1; d < length; ++d) distances.push_back(static_cast<double>(d));
  for (const Cosines& of_layer : found.cosines) {
    std::vector<double> sum(n), other(n), count(n), by_distance;
    for (int64_t d = 1; d < length; ++d) {
      const int64_t bin = bin_of(bins, d);
      sum[bin] += of_layer.sum[d];
      other[bin] += of_layer.other[d];
      count[bin] += of_layer.count[d];
      by_distance.push_back(of_layer.count[d] > 0 ? of_layer.sum[d] / of_layer.count[d] : kNaN);
    }
    for (int64_t b = 0; b < n; ++b) {
      cosines.push_back(count[b] > 0 ? sum[b] / count[b] : kNaN);
      others.push_back(count[b] > 0 ? other[b] / count[b] : kNaN);
    }
    correlations.push_back(spearman(distances, by_distance));
  }
  out.coordinate("distance", std::vector<double>(bins.begin(), bins.end()));
  out.array(
      "cosine", cosines, {layers, n}, {"layer", "distance"},
      "mean cosine of a meta-token's residual state with those of ordinary tokens up to so far before it; "
      "NaN: none");
  out.array("cosine_other", others, {layers, n}, {"layer", "distance"},
            "null: the same with the states at these positions of another sequence; NaN: none");
  out.array("cosine_spearman", correlations, {layers}, {"layer"},
            "rank correlation of distance and mean cosine at that distance; NaN: too few distances");
  out.scalar("cosine_spearman_last", correlations.back(), "cosine_spearman of the last block, NaN: none");
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const Found found = look(in);
  report_entropy(found, out);
  report_theorem(found, out);
  report_cosines(found, in.task.length(), out);
}

double plan(const MeasureInput& in) {
  expect_config(meta_share(in.task) > 0, "[meta_attention_entropy] a task with meta-tokens expected: got {}",
                in.settings.text("task.name"));
  return in.pass_flops(2 *
                       static_cast<double>(in.settings.integer("measure.meta_attention_entropy.sequences")));
}

}  // namespace

const MeasureEntry meta_attention_entropy_measure = {
    "meta_attention_entropy",
    "entropy and largest logit of attention with meta-tokens as they are and zeroed, cosines (M16-M19)",
    fields, run, plan};

}  // namespace copylab
