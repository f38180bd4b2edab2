// Temporary files beside the file they will replace, and what killed processes left of them.
#pragma once

#include <filesystem>
#include <string>

namespace copylab {

std::string host_name();

// FOLDER/.NAME.tmp-HOST-PID of this process, for the file FOLDER/NAME.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

// Removes the temporary files in a folder whose process ran on this host and is gone. Files of other hosts
// and of living processes stay; a folder that is not there, and a file that cannot be removed, are passed
// over.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace copylab
