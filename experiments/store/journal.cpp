// Journal: append-only file of checksummed records.
#include "experiments/store/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "core/error.h"

namespace copylab {
namespace {

constexpr char kMagic[] = "copylab journal 1\n";
constexpr size_t kMagicSize = sizeof(kMagic) - 1;
constexpr uint8_t kTrain = 1, kValid = 2;

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  return table;
}

struct RecordHeader {
  uint32_t size;  // bytes of the payload
  uint32_t crc;   // of the payload
};

static_assert(sizeof(TrainRow) == 48 && sizeof(ValidRow) == 32, "rows are stored as they lie in memory");

}  // namespace

uint32_t crc32(const void* data, size_t size) {
  static constexpr std::array<uint32_t, 256> table = crc_table();
  uint32_t c = ~uint32_t{0};
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < size; ++i) c = table[(c ^ bytes[i]) & 255] ^ (c >> 8);
  return ~c;
}

Journal::Journal(const std::filesystem::path& path) : path_(path) {
  read(path);  // refuses a foreign file
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  expect(file_ >= 0, "journal", "{}: {}", path.string(), std::strerror(errno));
  if (lseek(file_, 0, SEEK_END) < static_cast<off_t>(kMagicSize)) clear();
}

Journal::~Journal() {
  if (file_ >= 0) close(file_);
}

void Journal::append(const TrainRow& row) {
  append_record(kTrain, &row, sizeof(row));
}
void Journal::append(const ValidRow& row) {
  append_record(kValid, &row, sizeof(row));
}

void Journal::append_record(uint8_t kind, const void* row, uint32_t size) {
  std::array<uint8_t, sizeof(RecordHeader) + 1 + sizeof(TrainRow)> record;
  uint8_t* payload = record.data() + sizeof(RecordHeader);
  payload[0] = kind;
  std::memcpy(payload + 1, row, size);
  const RecordHeader header{size + 1, crc32(payload, size + 1)};
  std::memcpy(record.data(), &header, sizeof(header));
  const auto total = static_cast<ssize_t>(sizeof(header) + header.size);
  const ssize_t n = write(file_, record.data(), static_cast<size_t>(total));
  expect(n == total, "journal", "{}: cannot append: {}", path_.string(),
         n < 0 ? std::strerror(errno) : "disk full");
}

void Journal::sync() {
  expect(fsync(file_) == 0, "journal", "{}: {}", path_.string(), std::strerror(errno));
}

void Journal::clear() {
  const bool ok = ftruncate(file_, 0) == 0 && write(file_, kMagic, kMagicSize) == ssize_t{kMagicSize};
  expect(ok, "journal", "{}: cannot start: {}", path_.string(), std::strerror(errno));
}

Journal::Rows Journal::read(const std::filesystem::path& path) {
  Rows rows;
  std::ifstream in(path, std::ios::binary);
  if (!in) return rows;
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::string magic = bytes.substr(0, kMagicSize);
  expect(magic == std::string(kMagic).substr(0, magic.size()), "journal", "{}: not a journal of this program",
         path.string());
  size_t at = magic.size();
  while (at + sizeof(RecordHeader) <= bytes.size()) {
    RecordHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    const char* payload = bytes.data() + at + sizeof(header);
    const size_t left = bytes.size() - at - sizeof(header);
    if (header.size == 0 || header.size > left || crc32(payload, header.size) != header.crc) break;
    if (payload[0] == kTrain && header.size == 1 + sizeof(TrainRow)) {
      std::memcpy(&rows.train.emplace_back(), payload + 1, sizeof(TrainRow));
    } else if (payload[0] == kValid && header.size == 1 + sizeof(ValidRow)) {
      std::memcpy(&rows.valid.emplace_back(), payload + 1, sizeof(ValidRow));
    } else {
      break;
    }
    at += sizeof(header) + header.size;
  }
  rows.dropped_bytes = static_cast<int64_t>(bytes.size() - at);
  return rows;
}

}  // namespace copylab
