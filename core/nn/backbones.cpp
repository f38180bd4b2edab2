// The list of backbones; a new one adds its line here.
#include "core/nn/backbone.h"
#include "core/nn/lstm.h"
#include "core/nn/transformer.h"

namespace copylab::nn {

const std::vector<BackboneEntry>& backbone_registry() {
  static const std::vector<BackboneEntry> entries = {transformer_backbone(), lstm_backbone()};
  return entries;
}

const BackboneEntry& find_backbone(const std::string& name) {
  for (const BackboneEntry& entry : backbone_registry())
    if (name == entry.name) return entry;
  throw Error("[model] no backbone is named " + name);
}

}  // namespace copylab::nn
