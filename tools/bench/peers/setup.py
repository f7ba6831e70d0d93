"""Brings one peer into a folder, once: setup.py DIR duckdb|bytewax|flink

Ends with 1 and the reason on stderr when it cannot be had. Needs python3 with venv
and PyPI; Flink also javac of JDK 17.
"""

import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
# Newest first; bytewax has wheels up to 3.12.
PYTHONS = ["python3.12", "python3.11", "python3.10", "python3.9", "python3"]
JARS = ["flink-dist", "flink-cep", "flink-connector-files", "flink-csv", "flink-table-api-java-uber",
        "flink-table-planner-loader", "flink-table-runtime", "log4j-api", "log4j-core",
        "log4j-slf4j-impl", "log4j-1.2-api"]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise RuntimeError(f"{' '.join(map(str, command[:4]))}: {lines[-1]}")


def works(python):
    try:
        return subprocess.run([python, "-m", "venv", "--help"], capture_output=True).returncode == 0
    except OSError:
        return False


def pinned(package):
    for line in (HERE / "requirements.txt").read_text().splitlines():
        if line.startswith(package + "=="):
            return line.strip()
    raise RuntimeError(f"requirements.txt has no {package}")


def venv(folder):
    """An own interpreter with its own packages."""
    python = folder / "bin" / "python"
    if not python.exists():
        base = next((p for p in PYTHONS if works(p)), None)
        if base is None:
            raise RuntimeError("no python3 with venv (Debian: apt-get install python3-venv)")
        run(base, "-m", "venv", folder)
    return python


def module(folder, package):
    python = venv(folder / "py")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", pinned(package))


def flink(folder):
    if shutil.which("javac") is None:
        raise RuntimeError("no javac (Debian: apt-get install openjdk-17-jdk-headless)")
    home = folder / "flink"
    lib, classes = home / "lib", home / "classes"
    if not (home / "complete").exists():
        python = venv(folder / "py")
        shutil.rmtree(home, ignore_errors=True)
        lib.mkdir(parents=True)
        wheels = home / "wheel"
        run(python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--dest", wheels, pinned("apache-flink-libraries"))
        with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
            for name in wheel.namelist():
                jar = pathlib.PurePath(name).name
                if name.startswith("pyflink/lib/") and any(jar.startswith(j) for j in JARS):
                    (lib / jar).write_bytes(wheel.read(name))
        # 300 MB that nothing reads again.
        shutil.rmtree(wheels)
        (home / "complete").touch()
    run("javac", "-d", classes, "-cp", f"{lib}/*", *sorted((HERE / "flink").glob("*.java")))


def main():
    folder, peer = pathlib.Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if peer == "flink":
            flink(folder)
        else:
            module(folder, peer)
    except (RuntimeError, OSError) as error:
        sys.exit(f"{error}")


main()
