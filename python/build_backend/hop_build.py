"""Builds the Python package: a PEP 517 backend that needs nothing but Python, make and a C compiler.

`pip install .` calls build_wheel: the C library is built by make, the extension by the compiler, and the
wheel is written here. From the command line: `hop_build.py tree DIR` puts the package as it would be
installed into DIR, `hop_build.py wheel DIR` writes a wheel there, `hop_build.py sdist DIR` the sources.
HOP_BUILD names the folder in which make builds (build when not set), CC the compiler.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = "hop"
EXTENSION = "_core.abi3.so"
PLUG_INS = ("libhop_llvm.so", "libhop_mpi.so")
COMMAND = "hop-command"  # as hop/__main__.py calls it
SUFFIXES = (".py", ".pyi", ".typed")


def version():
    with open(os.path.join(ROOT, "include", "hop", "hop.h"), encoding="utf-8") as header:
        return re.search(r'#define HOP_VERSION "(.*)"', header.read()).group(1)


def _build_folder():
    return os.path.join(ROOT, os.environ.get("HOP_BUILD", "build"))


def _environment():
    """Without the parallelism of a make that may have called this: it lends its workers to its own
    children alone."""
    out = dict(os.environ)
    flags = [f for f in out.pop("MAKEFLAGS", "").split(" ") if not re.match(r"-j\d*$|--jobserver", f)]
    if any(flags):
        out["MAKEFLAGS"] = " ".join(flags)
    return out


def _run(command):
    """Runs it with its output on stderr: pip shows it when something fails."""
    print(" ".join(command), file=sys.stderr)
    done = subprocess.run(command, cwd=ROOT, env=_environment(), check=False, stdout=sys.stderr)
    if done.returncode:
        raise SystemExit(
            f"hop could not be built: {command[0]} ended with code {done.returncode}; "
            "what it said stands above (docs/dependencies.md lists what building needs)"
        )


def _newer(target, sources):
    return os.path.exists(target) and all(os.path.getmtime(s) <= os.path.getmtime(target) for s in sources)


def build_extension():
    """Builds the library and the extension; returns (path, name) of the files that belong beside the
    Python files."""
    build = _build_folder()
    _run(["make", "-s", f"-j{os.cpu_count() or 1}", f"BUILD={os.path.relpath(build, ROOT)}", "all"])
    folder = os.path.join(build, "python-extension")
    os.makedirs(folder, exist_ok=True)
    source = os.path.join(ROOT, "python", "src")
    compiler = os.environ.get("CC", "gcc").split()
    include = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise SystemExit(
            f"Python.h was not found in {include}: install the headers of this Python (python3-dev)"
        )
    flags = [
        "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-O2", "-g",
        "-fPIC", "-fvisibility=hidden",
    ]
    flags += os.environ.get("HOP_EXTENSION_FLAGS", "").split()
    headers = [
        os.path.join(source, "core.h"),
        os.path.join(source, "ops.h"),
        os.path.join(ROOT, "include", "hop", "hop.h"),
        os.path.abspath(__file__),
    ]
    # the one file of the library's own that the extension sees
    headers.append(os.path.join(ROOT, "src", "ops", "elementwise.def"))
    objects = []
    for name in sorted(os.listdir(source)):
        if name.endswith(".c"):
            path, made = os.path.join(source, name), os.path.join(folder, name[:-2] + ".o")
            if not _newer(made, [path, *headers]):
                _run(
                    [
                        *compiler,
                        *flags,
                        "-I" + os.path.join(ROOT, "include"),
                        "-I" + os.path.join(ROOT, "src"),
                        "-I" + include,
                        "-c",
                        path,
                        "-o",
                        made,
                    ]
                )
            objects.append(made)
    extension, library = os.path.join(folder, EXTENSION), os.path.join(build, "libhop.a")
    if not _newer(extension, [*objects, library]):
        exports = os.path.join(folder, "exports.map")
        with open(exports, "w", encoding="utf-8") as out:
            out.write("{ global: PyInit__core; local: *; };\n")
        libraries = ["-lz", "-lm", "-lpthread", "-ldl"]
        # the library as one object, whose private names meet nobody's
        whole = os.path.join(folder, "libhop.o")
        _run(["ld", "-r", "-o", whole, "--whole-archive", library])
        _run(["objcopy", "--keep-global-symbols=" + os.path.join(build, "exports"), whole])
        _run(
            [
                *compiler,
                "-shared",
                "-Wl,--version-script=" + exports,
                *os.environ.get("HOP_EXTENSION_FLAGS", "").split(),
                "-o",
                extension,
                *objects,
                whole,
                *libraries,
            ]
        )
    made = [
        (extension, EXTENSION),
        *((os.path.join(build, name), name) for name in PLUG_INS),
        (os.path.join(build, NAME), COMMAND),
    ]
    return [(path, name) for path, name in made if os.path.exists(path)]


def _stripped(path):
    """Without what only debuggers read, which is most of it."""
    copy = os.path.join(_build_folder(), "python-extension", "stripped")
    shutil.copyfile(path, copy)
    _run(["strip", "--strip-debug", copy])
    return _read(copy)


def _python_files():
    """(path in the wheel, path here) of every Python file of the package."""
    package = os.path.join(ROOT, "python", NAME)
    for folder, _, names in sorted(os.walk(package)):
        for name in sorted(names):
            if name.endswith(SUFFIXES):
                path = os.path.join(folder, name)
                yield os.path.join(NAME, os.path.relpath(path, package)), path


def tree(folder):
    """The package as it would be installed."""
    for relative, path in _python_files():
        target = os.path.join(folder, relative)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(path, target)
    for path, name in build_extension():
        target = os.path.join(folder, NAME, name)
        shutil.copy(path, target + ".new")
        os.replace(target + ".new", target)  # a process may have the old one mapped


def _metadata():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as readme:
        text = readme.read()
    return (
        "Metadata-Version: 2.1\n"
        f"Name: {NAME}\n"
        f"Version: {version()}\n"
        "Summary: Higher-order tensor programs: capture, transform, compile\n"
        "License-File: LICENSE\n"
        "Requires-Python: >=3.11\n"
        "Provides-Extra: numpy\n"
        "Requires-Dist: numpy; extra == 'numpy'\n"
        "Description-Content-Type: text/markdown\n"
        "\n"
        + text
    )


def _tag():
    return "cp311-abi3-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


class _Wheel:
    """A wheel being written: adds up the record of what it holds."""

    def __init__(self, folder):
        self.info = f"{NAME}-{version()}.dist-info"
        self.name = f"{NAME}-{version()}-{_tag()}.whl"
        os.makedirs(folder, exist_ok=True)
        self.zip = zipfile.ZipFile(os.path.join(folder, self.name), "w", zipfile.ZIP_DEFLATED)
        self.record = []
        self.add(f"{self.info}/LICENSE", _read(os.path.join(ROOT, "LICENSE")))
        self.add(
            f"{self.info}/entry_points.txt", f"[console_scripts]\n{NAME} = {NAME}.__main__:main\n".encode()
        )

    def add(self, path, data, mode=0o644):
        self._write(path, data, mode)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{path},sha256={digest},{len(data)}")

    def _write(self, path, data, mode=0o644):
        # one date, so that equal files make equal wheels
        entry = zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)

    def close(self):
        self.add(
            f"{self.info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: hop_build\nRoot-Is-Purelib: false\nTag: {_tag()}\n".encode(),
        )
        self.add(f"{self.info}/METADATA", _metadata().encode())
        self._write(
            f"{self.info}/RECORD", ("\n".join([*self.record, f"{self.info}/RECORD,,"]) + "\n").encode()
        )
        self.zip.close()
        return self.name


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    compiled = build_extension()
    wheel = _Wheel(wheel_directory)
    for relative, path in _python_files():
        wheel.add(relative, _read(path))
    for path, name in compiled:
        wheel.add(f"{NAME}/{name}", _stripped(path), 0o755)
    return wheel.close()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Python files stay where they are; the compiled ones are put beside them."""
    for path, name in build_extension():
        shutil.copy(path, os.path.join(ROOT, "python", NAME, name))
    wheel = _Wheel(wheel_directory)
    wheel.add(f"{NAME}_editable.pth", (os.path.join(ROOT, "python") + "\n").encode())
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    base = f"{NAME}-{version()}"
    os.makedirs(sdist_directory, exist_ok=True)
    kept = [
        "Makefile", "setup", "README.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml", "include", "src",
        "python", "docs", "examples", "tests",
    ]

    def wanted(entry):
        name = os.path.basename(entry.name)
        return (
            None
            if name in ("__pycache__", COMMAND) or name.endswith((".so", ".o", ".pyc", ".egg-info"))
            else entry
        )

    with tarfile.open(
        os.path.join(sdist_directory, base + ".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT
    ) as archive:
        for name in kept:
            if os.path.exists(os.path.join(ROOT, name)):
                archive.add(os.path.join(ROOT, name), f"{base}/{name}", filter=wanted)
        info = os.path.join(sdist_directory, "PKG-INFO")
        with open(info, "w", encoding="utf-8") as out:
            out.write(_metadata())
        archive.add(info, f"{base}/PKG-INFO")
        os.remove(info)
    return base + ".tar.gz"


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_editable = get_requires_for_build_wheel


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("tree", "wheel", "sdist"):
        sys.exit("usage: hop_build.py tree|wheel|sdist FOLDER")
    if sys.argv[1] == "tree":
        tree(sys.argv[2])
    else:
        print(
            os.path.join(sys.argv[2], (build_wheel if sys.argv[1] == "wheel" else build_sdist)(sys.argv[2]))
        )
