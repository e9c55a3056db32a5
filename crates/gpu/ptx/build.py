#!/usr/bin/env python3
"""Makes the .ptx files here of the kernels, or compares (--check) and has them assembled for all cards.

The compilers come from PyPI, in the versions that stand below, so that what is made is the same everywhere. NVRTC 11.8 is
old on purpose: drivers take PTX that is no newer than they are, and this one serves them from version 520 (2022) on. compute_70
(Volta, 2017) is the oldest that the newest assembler takes; a driver compiles it for whatever card there is.

Exit codes: 0 made, or the same; 1 different, or a register was spilled; 3 the compilers cannot be had.
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

NVRTC = "nvidia-cuda-nvrtc-cu11==11.8.89"
PTXAS = "nvidia-cuda-nvcc-cu12==12.9.86"
TARGET = "compute_70"
# Ada (sm_89) has the code of sm_86.
CARDS = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = HERE.parent / "kernels"


def fetch(package, folder):
    """Unpacks a package from PyPI."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder), package]
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"cannot fetch {package}: {error}", file=sys.stderr)
        sys.exit(3)
    name = package.split("==")[0].replace("-", "_")
    (wheel,) = folder.glob(f"{name}-*.whl")
    zipfile.ZipFile(wheel).extractall(folder)


def compile_kernels(nvrtc, source, headers):
    """The PTX of one source file."""
    program = ctypes.c_void_p()
    names = (ctypes.c_char_p * len(headers))(*(name.encode() for name in headers))
    texts = (ctypes.c_char_p * len(headers))(*(text.encode() for text in headers.values()))

    def call(function, *arguments):
        code = getattr(nvrtc, function)(*arguments)
        if code and function != "nvrtcCompileProgram":
            sys.exit(f"{function}: error {code}")
        return code

    def text(size_of, get):
        size = ctypes.c_size_t()
        call(size_of, program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call(get, program, buffer)
        return buffer.value.decode()

    call("nvrtcCreateProgram", ctypes.byref(program), source.read_text().encode(), source.name.encode(), len(headers), texts, names)
    options = [f"--gpu-architecture={TARGET}", "--std=c++14"]
    failed = call("nvrtcCompileProgram", program, len(options), (ctypes.c_char_p * len(options))(*(o.encode() for o in options)))
    if failed:
        sys.exit(text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog"))
    return text("nvrtcGetPTXSize", "nvrtcGetPTX")


def assemble(ptxas, ptx, folder):
    """Has every card's assembler look at it; says what it takes, and whether all stayed in registers."""
    running = [
        (card, subprocess.Popen([ptxas, "-v", f"-arch={card}", "-o", str(folder / f"{ptx.stem}.{card}.cubin"), str(ptx)],
                                stderr=subprocess.PIPE, text=True))
        for card in CARDS
    ]
    good = True
    for card, process in running:
        report = process.communicate()[1]
        kernels = re.findall(r"Compiling entry function '(\w+)'.*?(\d+) bytes stack.*?(\d+) bytes spill stores.*?Used (\d+) registers",
                             report, re.S)
        if process.returncode or not kernels:
            sys.exit(f"{ptx.name} for {card}:\n{report}")
        spilled = [f"{name} ({stores} bytes)" for name, stack, stores, _ in kernels if int(stack) or int(stores)]
        most = max(int(used) for *_, used in kernels)
        print(f"{ptx.name} for {card}: {'SPILLS in ' + ', '.join(spilled) if spilled else 'no spills'}; at most {most} registers")
        good &= not spilled
    return good


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(f"usage: {sys.argv[0]} [--check]")
    headers = {file.name: file.read_text() for file in sorted(KERNELS.glob("*.h"))}
    good = True
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        fetch(NVRTC, folder)
        fetch(PTXAS, folder)
        (library,) = folder.glob("nvidia/cuda_nvrtc/lib/libnvrtc.so.*")
        # It looks for its other half by name.
        for other in folder.glob("nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(other), mode=ctypes.RTLD_GLOBAL)
        nvrtc = ctypes.CDLL(str(library))
        ptxas = folder / "nvidia/cuda_nvcc/bin/ptxas"
        ptxas.chmod(0o755)
        for source in sorted(KERNELS.glob("*.cu")):
            made = compile_kernels(nvrtc, source, headers)
            file = HERE / f"{source.stem}.ptx"
            if not check:
                file.write_text(made)
            elif not file.exists() or file.read_text() != made:
                print(f"{file.name} is not what the kernels give: run {HERE / 'build.py'}")
                good = False
            good &= assemble(ptxas, file, folder)
    sys.exit(0 if good else 1)


main()
