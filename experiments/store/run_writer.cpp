// RunWriter: order of writes: journal synced, checkpoint, metrics file, journal emptied.
#include "experiments/store/run_writer.h"

#include <algorithm>

#include "core/io/temporary.h"
#include "experiments/store/provenance.h"

namespace copylab {
namespace fs = std::filesystem;
namespace {

// Adds the journal's rows that the metrics file does not hold yet, then cuts what is after `step`.
template <class Row>
void fold(std::vector<Row>& rows, const std::vector<Row>& journal, int64_t step) {
  for (const Row& row : journal)
    if (rows.empty() || row.step > rows.back().step) rows.push_back(row);
  rows.erase(std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.step > step; }),
             rows.end());
}

}  // namespace

RunWriter::RunWriter(RunFolder folder, Metrics fresh)
    : folder_(std::move(folder)), metrics_(std::move(fresh)) {
  remove_leftovers(folder_.path);
}

std::optional<CheckpointState> RunWriter::resume(nn::Parameters& parameters, optim::Optimizer& optimizer) {
  if (!fs::exists(folder_.checkpoint())) {
    start_over();
    return std::nullopt;
  }
  const CheckpointState state = read_checkpoint_state(folder_.checkpoint());
  expect(state.run_id == metrics_.run_id, "store", "{}: belongs to run {}, expected one of run {}",
         folder_.checkpoint().string(), state.run_id, metrics_.run_id);
  Metrics found;
  if (fs::exists(folder_.metrics())) {
    found = read_metrics(folder_.metrics());
    expect(found.run_id == metrics_.run_id, "store", "{}: belongs to run {}, expected run {}",
           folder_.metrics().string(), found.run_id, metrics_.run_id);
  }
  const Journal::Rows rows = Journal::read(folder_.journal());
  if (rows.dropped_bytes > 0)
    folder_.append_log(fmt::format("dropped {} bytes of a torn journal row", rows.dropped_bytes));
  fold(found.train, rows.train, state.step);
  fold(found.valid, rows.valid, state.step);
  if (static_cast<int64_t>(found.train.size()) != state.train_rows ||
      static_cast<int64_t>(found.valid.size()) != state.valid_rows) {
    folder_.append_log("rows before the checkpoint are lost: starting from the beginning");
    start_over();
    return std::nullopt;
  }
  load_checkpoint(folder_.checkpoint(), metrics_.run_id, parameters, &optimizer);

  metrics_.train = std::move(found.train);
  metrics_.valid = std::move(found.valid);
  metrics_.results = std::move(found.results);
  metrics_.resumes = std::move(found.resumes);
  if (found.provenance.count("started")) metrics_.provenance["started"] = found.provenance["started"];
  wall_before_ = found.wall_s;
  if (found.status != "done") {  // a finished run comes here for further measures
    metrics_.resumes.push_back(fmt::format("step {} at {}", state.step, utc_now()));
    save_metrics("training");
  }
  journal_.emplace(folder_.journal());
  journal_->clear();
  return state;
}

void RunWriter::start_over() {
  fs::remove(folder_.checkpoint());
  fs::remove(folder_.journal());
  save_metrics("training");
  journal_.emplace(folder_.journal());
}

void RunWriter::log(const TrainRow& row) {
  metrics_.train.push_back(row);
  journal_->append(row);
}

void RunWriter::log(const ValidRow& row) {
  metrics_.valid.push_back(row);
  journal_->append(row);
}

void RunWriter::save(CheckpointState state, const nn::Parameters& parameters,
                     const optim::Optimizer& optimizer) {
  state.run_id = metrics_.run_id;
  state.train_rows = static_cast<int64_t>(metrics_.train.size());
  state.valid_rows = static_cast<int64_t>(metrics_.valid.size());
  journal_->sync();
  save_checkpoint(folder_.checkpoint(), state, parameters, &optimizer);
  save_metrics("training");
  journal_->clear();
}

void RunWriter::save_metrics(const std::string& status) {
  metrics_.status = status;
  const std::chrono::duration<double> here = std::chrono::steady_clock::now() - begun_;
  metrics_.wall_s = wall_before_ + here.count();
  write_metrics(folder_.metrics(), metrics_);
}

void RunWriter::finish() {
  save_metrics("done");
  journal_.reset();
  fs::remove(folder_.journal());
  folder_.write_done();
}

}  // namespace copylab
