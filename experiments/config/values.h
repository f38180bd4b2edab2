// Values: from the text that a user wrote to a typed value (format_value goes back).
#pragma once

#include "core/settings.h"
#include "experiments/config/raw.h"

namespace copylab {

// The schema decides the type, and the text is read in the classic locale:
//   integer  decimal digits with an optional sign; `010` is ten; `1e5`, `1.0` and `0x10` are refused
//   real     any decimal spelling, `1e-4` = `1.e-4` = `0.0001`; finite
//   flag     true or false, nothing else
//   text     as written; one of the choices if the field has any
//   list     of integers: [1, 2]
// Throws ConfigError "WHERE: KEY: expected …, got '…'".
Value parse_value(const Field& field, const RawValue& raw);

// What a field accepts: "an integer from 1 to 3", "one of slot, sigmoid".
std::string expectation(const Field& field);
std::string type_name(const Field& field);  // "integer", "real", "flag", "text", "list"

}  // namespace copylab
