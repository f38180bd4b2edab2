"""Which GPUs the program has code for: read from the file itself, and compared with what `copylab doctor` says."""

import os
import re
import struct
import subprocess
from pathlib import Path

PROGRAM = Path(os.environ.get("COPYLAB_BINARY", Path(__file__).parents[1] / "build/copylab"))
MAGIC = 0xBA55ED50  # of a "fat binary", which holds code for several GPUs
PTX, ELF = 1, 2


def section(data: bytes, wanted: bytes) -> bytes:
    """The bytes of a section of a 64-bit ELF file, empty if it has none of that name."""
    assert data[:5] == b"\x7fELF\x02"
    (table,) = struct.unpack_from("<Q", data, 0x28)
    width, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + width * i) for i in range(count)]
    text = data[headers[names][4] :]
    for name, _, _, _, offset, size in headers:
        if text[name : text.index(b"\0", name)] == wanted:
            return data[offset : offset + size]
    return b""


def built_for(program: Path) -> set:
    """(kind, architecture) of all device code, for example (ELF, 90). Each of the files that nvcc made counts."""
    fat, at, parts = section(program.read_bytes(), b".nv_fatbin"), 0, []
    while at < len(fat):
        magic, _, header, size = struct.unpack_from("<IHHQ", fat, at)
        if magic != MAGIC:  # padding
            at += 8
            continue
        entry, end, part = at + header, at + header + size, set()
        while entry < end:
            kind, _, header, payload = struct.unpack_from("<HHIQ", fat, entry)
            (architecture,) = struct.unpack_from("<I", fat, entry + 28)
            part.add((kind, architecture))
            entry += header + payload
        parts.append(part)
        at = end
    return set.intersection(*parts) if parts else set()


def test_the_program_has_the_code_that_doctor_names():
    doctor = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True, check=True).stdout
    line = re.search(r"^cuda architectures +(.+)$", doctor, re.MULTILINE)
    expected = set()
    for name in line[1].split() if line else []:  # as CMake's CUDA_ARCHITECTURES
        number, _, kind = name.partition("-")
        expected |= {(k, int(number)) for k in (ELF, PTX) if kind in ("", {ELF: "real", PTX: "virtual"}[k])}
    assert built_for(PROGRAM) == expected
