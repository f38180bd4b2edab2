// Metrics: every number of a run, in memory and as metrics.h5.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/io/hdf5.h"
#include "core/settings.h"
#include "experiments/measures/measure.h"
#include "experiments/store/journal.h"

namespace copylab {

// Layout of metrics.h5:
//   attributes of /           config (YAML), run_id, provenance (git_commit, …), started, wall_s, resumes
//   attributes of /config     one per field, typed, named by its dotted path
//   /status                   text: training, trained, done, interrupted, failed: …
//   /train/{step,tokens,loss,lr,grad_norm,tokens_per_s}    equal lengths
//   /eval/valid/{step,tokens,loss,accuracy}                equal lengths
//   /eval/test/…, /eval/<measure>/…   arrays with attributes dims and doc, a dataset for each coordinate
struct Metrics {
  std::string config;  // YAML
  Settings settings;
  std::map<std::string, h5::Attribute> provenance;  // root attributes besides the ones named here
  std::string run_id;
  std::string status = "training";
  double wall_s = 0;                 // working time, summed over resumes
  std::vector<std::string> resumes;  // "step 120 at 2026-11-30T18:00:00Z"
  std::vector<TrainRow> train;
  std::vector<ValidRow> valid;

  struct Result {
    MeasureOutput output;
    std::string settings;  // what the measure was asked, canonical text; attribute of its group
  };
  std::map<std::string, Result> results;  // by name: "test" and measures
};

void write_metrics(const std::filesystem::path& file, const Metrics& metrics);
// `settings` of the result stay empty: they are read from config.yaml.
Metrics read_metrics(const std::filesystem::path& file);

// Writes a measure's arrays, coordinates and labels into `group` of an open file, and reads them back.
void write_output(h5::File& file, const std::string& group, const MeasureOutput& output);
MeasureOutput read_output(const h5::File& file, const std::string& group);

// A number of a metrics file by the name that bands and selects use: "valid/loss" is the last value of a
// series, "test/accuracy" a scalar, "train/loss" the last logged row, "test/loss_by_slice[new]" the value at
// a label or coordinate of a result with one axis. Nothing if it is not there.
std::optional<double> read_metric(const h5::File& file, const std::string& name);

}  // namespace copylab
