// The list of measures; a new measure adds its line here.
#include "core/error.h"
#include "core/nearest.h"
#include "experiments/measures/cache.h"
#include "experiments/measures/copy_behaviour.h"
#include "experiments/measures/copy_gradient.h"
#include "experiments/measures/exact_match.h"
#include "experiments/measures/generation.h"
#include "experiments/measures/gradient_rank.h"
#include "experiments/measures/head_gradient.h"
#include "experiments/measures/head_knockout.h"
#include "experiments/measures/induction.h"
#include "experiments/measures/lengths.h"
#include "experiments/measures/measure.h"
#include "experiments/measures/meta_attention_entropy.h"
#include "experiments/measures/meta_cost.h"
#include "experiments/measures/meta_path.h"
#include "experiments/measures/meta_zero.h"
#include "experiments/measures/mixture_rank.h"
#include "experiments/measures/neural_cache.h"
#include "experiments/measures/overhead.h"
#include "experiments/measures/pointer_distance.h"
#include "experiments/measures/pointer_time.h"
#include "experiments/measures/rate_distortion.h"
#include "experiments/measures/transfer.h"
#include "experiments/measures/two_dimensions.h"
#include "experiments/measures/update_efficiency.h"
#include "experiments/measures/update_rank.h"
#include "experiments/measures/word_frequency.h"

namespace copylab {

const std::vector<MeasureEntry>& measure_registry() {
  static const std::vector<MeasureEntry> entries = {
      head_gradient_measure,     gradient_rank_measure,  update_rank_measure,
      update_efficiency_measure, two_dimensions_measure, copy_behaviour_measure,
      copy_gradient_measure,     mixture_rank_measure,   cache_measure,
      neural_cache_measure,      exact_match_measure,    overhead_measure,
      transfer_measure,          induction_measure,      head_knockout_measure,
      generation_measure,        lengths_measure,        meta_zero_measure,
      meta_path_measure,         word_frequency_measure, pointer_distance_measure,
      pointer_time_measure,      meta_cost_measure,      meta_attention_entropy_measure,
      rate_distortion_measure,
  };
  return entries;
}

const MeasureEntry& find_measure(const std::string& name) {
  std::vector<std::string> names;
  for (const MeasureEntry& entry : measure_registry()) {
    if (name == entry.name) return entry;
    names.push_back(entry.name);
  }
  throw Error("[measure] a registered measure expected: got '" + name + "'" + did_you_mean(name, names));
}

}  // namespace copylab
