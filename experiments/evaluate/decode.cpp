// Decoding: for each token one forward pass over the context, or over the last token under what is carried
// on, with a label at the last position alone.
#include "experiments/evaluate/decode.h"

#include <algorithm>

#include "experiments/config/error.h"
#include "experiments/evaluate/split_walk.h"

namespace copylab {
namespace {

// The argmax of a mode at the last position of each row. `carry` may be null.
std::vector<int32_t> next_tokens(const nn::Model& model, Tape& tape, const Batch& batch,
                                 const DecodeOptions& options, nn::Carry* carry) {
  tape.begin({.record = false, .training = false});
  nn::ModelInput in = model_input(tape, batch, carry);
  in.want_argmax = true;
  in.lm_floor = options.lm_floor;
  const nn::HeadOutput out = model.forward(tape, in);
  const bool natural = options.mode == "natural", force = options.mode == "force_copy";
  if (force && !out.copy_argmax) throw ConfigError("mode force_copy: this model's head has no pointer");
  // A head without a pointer is the LM head alone.
  const Tensor& chosen = natural || !out.lm_argmax ? out.argmax : force ? out.copy_argmax : out.lm_argmax;
  return to_host<int32_t>(tape.backend(), chosen);
}

}  // namespace

std::vector<std::vector<int32_t>> decode(const nn::Model& model,
                                         const std::vector<std::vector<int32_t>>& prompts,
                                         const DecodeOptions& options) {
  expect(!prompts.empty() && !prompts[0].empty(), "decode", "a prompt of at least one token expected");
  for (const auto& prompt : prompts)
    expect(prompt.size() == prompts[0].size(), "decode", "prompts of one length expected: got {} and {}",
           prompts[0].size(), prompt.size());
  std::vector<std::vector<int32_t>> texts = prompts;
  Tape tape(model.parameters().backend());
  nn::Carry carry;
  const bool carries = model.carries_context();
  for (int64_t step = 0; step < options.tokens; ++step) {
    const int64_t past = static_cast<int64_t>(texts[0].size());
    const int64_t length = !carries ? std::min(options.context, past) : step == 0 ? past : 1;
    Batch batch = blank_batch(static_cast<int64_t>(texts.size()), length);
    for (size_t row = 0; row < texts.size(); ++row) {
      std::copy(texts[row].end() - length, texts[row].end(), batch.tokens.begin() + row * length);
      batch.targets[(row + 1) * length - 1] = 0;  // any label: the argmax does not depend on it
    }
    if (options.meta_token >= 0) {
      batch.meta.resize(batch.tokens.size());
      for (size_t i = 0; i < batch.tokens.size(); ++i) batch.meta[i] = batch.tokens[i] == options.meta_token;
    }
    const std::vector<int32_t> next = next_tokens(model, tape, batch, options, carries ? &carry : nullptr);
    for (size_t row = 0; row < texts.size(); ++row) texts[row].push_back(next[row]);
  }
  for (size_t row = 0; row < texts.size(); ++row)
    texts[row].erase(texts[row].begin(), texts[row].begin() + static_cast<int64_t>(prompts[row].size()));
  return texts;
}

}  // namespace copylab
