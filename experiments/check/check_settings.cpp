// Settings of the small runs that checks are made on.
#include "experiments/check/check_settings.h"

#include "experiments/config/resolve.h"

namespace copylab {

Settings check_settings(const std::vector<std::string>& changes) {
  RawConfig base, over;
  for (const char* assignment :
       {"task.name=spamlang", "task.vocab=64",     "task.length=16",         "head.kind=copy_paste",
        "model.dim=16",       "model.layers=1",    "model.heads=2",          "model.kv_heads=1",
        "model.ffn=32",       "model.dropout=0.1", "train.batch=4",          "train.accumulate=2",
        "train.steps=200",    "train.lr=3e-3",     "train.log_every=1",      "train.checkpoint_every=0.02",
        "eval.every=25",      "eval.sequences=16", "eval.test_sequences=32", "eval.batch=8",
        "train.threads=1"})
    base.entries.push_back(parse_assignment(assignment));
  for (const std::string& change : changes) over.entries.push_back(parse_assignment(change));
  return resolve(Catalogue::installed(), {base, over});
}

std::vector<std::string> stream_changes() {
  return {"model.kind=lstm",     "model.layers=2",      "model.ffn=0",
          "model.zoneout_h=0.1", "model.zoneout_c=0.2", "head.kind=pointer_sentinel",
          "head.window=20",      "task.name=text",      "task.corpus=tinyshakespeare",
          "task.level=byte",     "task.vocab=0",        "task.length=16",
          "task.lanes=4",        "train.accumulate=1"};
}

}  // namespace copylab
