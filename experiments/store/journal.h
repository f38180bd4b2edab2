// Journal: rows logged since the last snapshot of a metrics file, appended one by one and safe to tear.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace copylab {

// One logged training update. `step` counts updates, this one included; `tokens` counts input tokens so far.
struct TrainRow {
  int64_t step = 0;
  int64_t tokens = 0;
  double loss = 0;  // mean -log p per label of the update's batch, before the update
  double lr = 0;
  double grad_norm = 0;  // before clipping
  double tokens_per_s = 0;
};

// One evaluation on the validation split after `step` updates.
struct ValidRow {
  int64_t step = 0;
  int64_t tokens = 0;
  double loss = 0;
  double accuracy = 0;
};

// Every record carries its length and CRC-32. A process that dies while it appends leaves a torn last record,
// which reading drops.
class Journal {
 public:
  // Opens for appending; makes the file if there is none. Throws Error if it is not a journal.
  explicit Journal(const std::filesystem::path& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void append(const TrainRow& row);
  void append(const ValidRow& row);
  void sync();   // rows so far survive a power cut
  void clear();  // after a snapshot holds them

  struct Rows {
    std::vector<TrainRow> train;
    std::vector<ValidRow> valid;
    int64_t dropped_bytes = 0;  // of a torn end
  };
  // The complete rows of a journal; nothing if there is no file.
  static Rows read(const std::filesystem::path& path);

 private:
  void append_record(uint8_t kind, const void* row, uint32_t size);
  std::filesystem::path path_;
  int file_ = -1;
};

uint32_t crc32(const void* data, size_t size);  // the common reflected polynomial 0xEDB88320

}  // namespace copylab
