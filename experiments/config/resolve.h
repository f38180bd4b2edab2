// Resolving: layers of raw configuration become typed settings, with an id that stands for what they compute.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/settings.h"
#include "experiments/config/raw.h"
#include "experiments/config/schema.h"

namespace copylab {

// Raised when the same settings give other numbers than before (trainer, initialisation, file layout).
inline constexpr int kFormatVersion = 1;

// Every field of the schema: the last layer that sets it wins, then the values of model.preset, then
// defaults. A layer that chooses another task or head than the layers below starts its section afresh. Every
// value is checked, also those that a later layer replaces. Throws ConfigError.
Settings resolve(const Catalogue& catalogue, const std::vector<RawConfig>& layers);

// resolve() for a new run: also what task and measures complete by what they find outside
// (TaskEntry::complete).
Settings resolve_new(const Catalogue& catalogue, const std::vector<RawConfig>& layers);
// That completion alone, on resolved settings, and that of the measures alone. Throw ConfigError.
void complete(const Catalogue& catalogue, Settings& settings);
void complete_measures(const Catalogue& catalogue, Settings& settings);

// Does any task, head or measure that these layers choose know this key?
bool knows(const Catalogue& catalogue, const std::vector<RawConfig>& layers, const std::string& key);

// Eight hexadecimal digits that stand for all semantic fields, the task's version and kFormatVersion.
// A field marked `later` counts only where it is not at its default.
// Settings of measures are left out: a measure is computed on a finished run and does not change it.
std::string run_id(const Catalogue& catalogue, const Settings& settings);
std::string run_id(const Settings& settings);

// The canonical text behind run_id, one "path=value" a line.
std::string canonical_text(const Catalogue& catalogue, const Settings& settings);

// Nested YAML with every field. load_settings reads it back to equal settings.
std::string to_yaml(const Settings& settings);

// A run's config.yaml. Throws ConfigError.
Settings load_settings(const std::filesystem::path& file);

}  // namespace copylab
