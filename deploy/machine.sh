# What the commands need of the machine: sourced by deploy/run, deploy/test and deploy/fuzz, never run by itself.

# Without these nothing builds.
build_packages=(libcurl4-openssl-dev libnghttp2-dev libssl-dev libyaml-dev pkg-config curl)
# What an unpacked Swift toolchain loads and links with, and its archive does not have.
toolchain_packages=(git g++ libncurses6 libsqlite3-0 libxml2)

say() { printf '%s\n' "$*" >&2; }

# Which of the given Debian packages are not installed, one a line.
missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s\n' "$package"
    done
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" </dev/null >&2
}

# need_packages required|wanted NAME...: installs what is missing; without root says what to install.
# Fails if a required package stays missing; a wanted one only costs the tests that use it.
need_packages() {
    local kind=$1 missing package
    shift
    if ! command -v dpkg-query >/dev/null; then
        say "This is no Debian, so nothing is installed. Needed, by Debian's names: $*"
        return 0
    fi
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        say "Missing packages. Install them with:  sudo apt-get install -y ${missing[*]}"
        [ "$kind" = wanted ] && say "Continuing: tests that need them are skipped." && return 0
        return 1
    fi
    say "Installing ${missing[*]}"
    # Package lists of a fresh machine are missing or old: fetched only when needed.
    apt_install "${missing[@]}" || { apt-get update </dev/null >&2 && apt_install "${missing[@]}"; } && return 0
    if [ "$kind" = wanted ]; then
        # One that cannot be had does not keep the others away.
        for package in "${missing[@]}"; do apt_install "$package" || say "Could not install $package; apt-get's messages are above."; done
        return 0
    fi
    say "Could not install ${missing[*]}; apt-get's messages are above."
    return 1
}

# toolchain_works: swift and git start, and there are headers and libraries of C++ to link with.
toolchain_works() {
    local program works
    swift --version >/dev/null 2>&1 && command -v git >/dev/null && program=$(mktemp) || return 1
    clang++ -x c++ -o "$program" - <<<$'#include <cstdlib>\nint main() { return 0; }' >/dev/null 2>&1
    works=$?
    rm -f "$program"
    return "$works"
}

# Puts a Swift toolchain of at least 6.3 on the PATH, or says where to get one.
find_swift() {
    local folder version
    if ! command -v swift >/dev/null; then
        for folder in /opt/swift*/usr/bin /usr/local/swift*/usr/bin /usr/share/swift*/usr/bin \
            "$HOME/.local/share/swiftly/bin" "$HOME/.swiftly/bin"; do
            [ -x "$folder/swift" ] && export PATH="$folder:$PATH" && break
        done
    fi
    if command -v swift >/dev/null && ! toolchain_works; then
        say "Swift is here, in $(dirname "$(command -v swift)"), and this machine lacks what it needs."
        need_packages required "${toolchain_packages[@]}" || return 1
        if ! swift --version >/dev/null 2>&1; then
            say "It cannot be started: $(swift --version 2>&1 | head -n 1)"
            return 1
        fi
    fi
    version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' | head -n 1)
    set -- $version
    [ $((${1:-0} * 100 + ${2:-0})) -lt 603 ] || return 0
    say "Lanyard needs Swift 6.3 or later, and this machine has ${1:-none}${1:+.$2}: https://www.swift.org/install/linux/"
    say "Put its usr/bin folder on the PATH, and run this command again."
    return 1
}

# Tells the build its commit (`lanyard version`, `lanyard_build_info`), unless the variable is set; without git it stays "unknown". The
# source package of a release has no git: its file RELEASE has commit, version, time and names.
name_commit() {
    local name value
    if [ -e RELEASE ]; then
        while IFS='=' read -r name value; do
            case $name in
            LANYARD_COMMIT | LANYARD_VERSION | LANYARD_LICENSE | LANYARD_MAINTAINER | SOURCE_DATE_EPOCH)
                [ -n "${!name:-}" ] || export "$name=$value"
                ;;
            esac
        done <RELEASE
    fi
    [ -n "${LANYARD_COMMIT:-}" ] || LANYARD_COMMIT=$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)
    export LANYARD_COMMIT
}

# For CI alone: it changes a setting of the whole machine. Until the caller's end, the kernel shares the processors among the threads that
# start from now on, not among sessions. On Linux 6.18 threads outside a busy session's group got no processor for up to ten seconds. The
# kernel's own are among them: the write of a store took three seconds, and a refresh waits for two of them. Needs root. What the caller's
# EXIT trap does is done as well. Of two callers at once the first that began restores it.
without_autogroup() {
    autogroup=/proc/sys/kernel/sched_autogroup_enabled
    [ "$(cat "$autogroup" 2>/dev/null)" = 1 ] && [ -w "$autogroup" ] || return 0
    { echo 0 >"$autogroup"; } 2>/dev/null || return 0
    say "kernel.sched_autogroup_enabled is 0 until the end of the tests"
    autogroup_former=$(trap -p EXIT | sed "s/^trap -- '//; s/' EXIT\$//")
    trap '{ echo 1 >"$autogroup"; } 2>/dev/null; eval "$autogroup_former"' EXIT
}
