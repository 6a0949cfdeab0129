"""Every program that scripts, CMake and tests start is in a package of scripts/packages.txt, or every Debian has it:
programs.py ROOT. A program that is missing is found here, and not by whoever builds in a bare root of Debian 12."""
import os
import re
import sys

import programs_other
import programs_python
import programs_shell
import sources

LIST = "scripts/packages.txt"
# What a minimal Debian 12 has (debootstrap --variant=minbase): packages that are essential or required, and apt.
MINIMAL = {
    "apt": "apt apt-cache apt-config apt-get apt-key apt-mark",
    "bash": "bash",
    "bsdutils": "logger renice script",
    "coreutils": "[ arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown chroot cksum comm cp csplit cut date"
                 " dd df dir dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id install"
                 " join link ln logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk"
                 " pinky pr printenv printf ptx pwd readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum"
                 " sha384sum sha512sum shred shuf sleep sort split stat stdbuf stty sum sync tac tail tee test timeout touch"
                 " tr true truncate tsort tty uname unexpand uniq unlink users vdir wc who whoami yes",
    "dash": "dash sh",
    "debianutils": "run-parts which",
    "diffutils": "cmp diff diff3 sdiff",
    "dpkg": "dpkg dpkg-deb dpkg-divert dpkg-query dpkg-split dpkg-statoverride dpkg-trigger start-stop-daemon"
            " update-alternatives",
    "findutils": "find xargs",
    "grep": "egrep fgrep grep",
    "gzip": "gunzip gzip zcat zgrep",
    "hostname": "hostname",
    "libc-bin": "getconf getent iconv ldconfig ldd locale localedef",
    "login": "login",
    "mawk": "awk mawk",
    "mount": "losetup mount swapoff swapon umount",
    "ncurses-bin": "clear infocmp reset tic tput",
    "passwd": "chpasswd groupadd groupdel passwd useradd userdel usermod",
    "perl-base": "perl",
    "sed": "sed",
    "tar": "tar",
    "util-linux": "blkid choom dmesg fallocate findmnt flock getopt ionice ipcrm ipcs lsblk lscpu mkfs mkswap more mountpoint"
                  " nsenter partx pivot_root prlimit rev runuser setarch setpriv setsid su taskset unshare whereis",
}
# Programs whose names differ from that of their package, unless the list has them as a second word: program → package.
SHIPPED_BY = {
    # g++ depends on gcc and binutils.
    "c++": "g++", "cc": "g++", "gcc": "g++", "nm": "g++", "readelf": "g++", "strip": "g++",
    "cpack": "cmake", "ctest": "cmake",
    "dpkg-source": "dpkg-dev",
    "go": "golang-go",
    "mpirun": "openmpi-bin",
    "munged": "munge",
    "ninja": "ninja-build",
    "promtool": "prometheus",
    # It depends on slurmctld, slurmd and slurm-client.
    **dict.fromkeys("sacct sbatch scancel scontrol sinfo slurmctld slurmd squeue srun".split(), "slurm-wlm"),
    "xz": "xz-utils",
}
# (file, programs that it may start though they are in no package of the list, why).
MAY_LACK = (
    ("cmake/cuda.cmake", "nvcc", "comes with the CUDA toolkit; without it the CUDA backend is not built, which CMake says"),
    ("scripts/gpu_check", "compute-sanitizer", "comes with the CUDA toolkit; the script says that it is missing"),
    ("scripts/install-deps", "sudo", "looked for where the user is not root; the script says what to install without it"),
    ("scripts/real_gateway", "etcd make rsync", "looked for first, by a script that is run by hand and names their packages"),
    ("scripts/tidy", "clang-tidy-16", "looked for first, by a script that is run by hand and says what to install"),
    ("tests/daemon/library/CMakeLists.txt", "valgrind", "three tests run a second time under it where it is installed"),
)
FOLDERS = (".ci/", "bench/page/", "cmake/", "examples/", "scripts/", "tests/", "web/")  # the rest of bench/ is run by hand
SOURCES = (".py", ".sh", ".cpp", ".hpp", ".mjs", ".ts", ".tsx")
PAGES = ("docs/ci.md", "docs/quickstart.md")  # tests run their shell blocks
LEFT_OUT = ("tests/lint/lints_fire.py", "tests/vectors/")  # the first holds broken samples
OURS = re.compile(r"driftgate(_\w+)?|tinylm")


def listed(text):
    """Package → the program that makes it unnecessary, or the package's own name, for each line of the list."""
    lines = [line.split() for line in text.splitlines()]
    return {words[0]: words[1] if len(words) > 1 else words[0] for words in lines if words and words[0][0] not in "#["}


def interpreter(text):
    """Of the first line: the programs that it starts, and whether they read Python or a shell's language."""
    line = re.match(r"#!(.*)", text)
    words = line[1].split() if line else []
    programs = [program for _, program in programs_shell.of_words(words, 1)]
    return programs, "py" if "python3" in programs else "sh" if set(programs) & programs_shell.SHELLS else ""


def started(texts):
    """(file, line, programs of which one is enough) of everything that the files (name → text) start."""
    found, python = set(), {}
    for name, text in texts.items():
        programs, kind = interpreter(text)
        found |= {(name, 1, (program,)) for program in programs}
        if name.endswith(".py") or kind == "py":
            python[name] = text
            continue
        if name.endswith((".cmake", "CMakeLists.txt")):
            here = programs_other.of_cmake(text)
        elif name.endswith((".cpp", ".hpp")):
            here = programs_other.of_cpp(text)
        elif name.endswith((".mjs", ".ts", ".tsx")):
            here = programs_other.of_node(text)
        elif name.endswith(".md"):
            here = programs_other.of_page(text)
        elif name.endswith(".sh") or kind == "sh":
            here = [(line, (program,)) for line, program in programs_shell.Script(text).programs()]
        else:
            continue
        found |= {(name, line, programs) for line, programs in here}
    found |= {(name, line, (program,)) for name, line, program in programs_python.programs(python)}
    return sorted((name, line, programs) for name, line, programs in found if not any(map(OURS.fullmatch, programs)))


def missing(found, packages):
    """A fault for each place that starts what no package of the list ships."""
    there = {program for programs in MINIMAL.values() for program in programs.split()} | set(packages) | set(packages.values())
    there |= {program for program, package in SHIPPED_BY.items() if package in packages}
    for name, line, programs in found:
        excused = {program for file, some, _ in MAY_LACK if file == name for program in some.split()}
        if not set(programs) & (there | excused):
            package = next((SHIPPED_BY[program] for program in programs if program in SHIPPED_BY), None)
            todo = f"name {package} in {LIST}" if package else \
                f"name its package in {LIST} and, where it is called otherwise, in SHIPPED_BY of tests/lint/programs.py; " \
                "or say why it may be missing, in MAY_LACK"
            yield f"{name}:{line}: starts {' or '.join(programs)}, which is in no package of the list: {todo}"


def stale(found):
    """A fault for each row of the tables that nothing needs any more."""
    everywhere = {program for _, _, programs in found for program in programs}
    places = {(name, program) for name, _, programs in found for program in programs}
    for program, package in SHIPPED_BY.items():
        if program not in everywhere:
            yield f"tests/lint/programs.py: nothing starts {program} any more: remove it from SHIPPED_BY ({package})"
    for file, some, _ in MAY_LACK:
        for program in some.split():
            if (file, program) not in places:
                yield f"tests/lint/programs.py: {file} does not start {program} any more: remove it from MAY_LACK"


def is_read(name):
    of_cmake = name.endswith((".cmake", "CMakeLists.txt"))
    is_source = of_cmake or name.endswith(SOURCES) or "." not in os.path.basename(name)
    return name in PAGES or is_source and (of_cmake or name.startswith(FOLDERS)) and not name.startswith(LEFT_OUT)


if __name__ == "__main__":
    root = sys.argv[1]
    found = started({name: sources.read(root, name) for name in sources.files(root, "") if is_read(name)})
    faults = [*missing(found, listed(sources.read(root, LIST))), *stale(found)]
    sys.exit(sources.report("programs", faults))
