# What the scripts deploy/check-… share: sourced by them after deploy/machine.sh, never run by itself.

roots=$PWD/.build-roots
suite=bookworm
faults=0
passes=0
skips=0
# The status of a check that could try nothing here.
nothing_tried=77
# What check_command_files needs.
command_packages=(man-db groff-base mandoc zsh fish)

# --quick leaves out what takes long or needs root, and installs nothing. --tools only installs what the check needs. Only the checks of
# the fast tier have both.
mode=${1:-}
case $mode in
"" | --quick | --tools) ;;
*)
    echo "usage: $0 [--quick | --tools]" >&2
    exit 64
    ;;
esac

# expect TEXT COMMAND...: runs it, and prints `ok` or `FAULT` with the text; of a failed command also the last lines of its output.
expect() {
    local text=$1 output
    shift
    if output=$("$@" 2>&1 </dev/null); then
        passes=$((passes + 1))
        printf 'ok     %s\n' "$text"
    else
        faults=$((faults + 1))
        printf 'FAULT  %s\n' "$text"
        tail -n 40 <<<"$output" | sed 's/^/       /'
        return 1
    fi
}

# figure NAME VALUE: something that was measured.
figure() { printf '       %s: %s\n' "$1" "$2"; }

# skipped TEXT: something that this machine cannot do. It is no fault, and it is said.
skipped() {
    skips=$((skips + 1))
    printf 'SKIP   %s\n' "$1"
}

# The last line, and the end.
finish_checks() {
    echo "$passes ok, $faults faults, $skips skipped"
    if [ "$faults" = 0 ] && [ "$passes" = 0 ] && [ "$skips" -gt 0 ]; then exit "$nothing_tried"; fi
    [ "$faults" = 0 ] && [ "$passes" -gt 0 ]
    exit
}

# The quick form has a short time: what --tools could not install is missing there.
if [ "$mode" = --quick ]; then need_packages() { [ "$1" = wanted ] || [ -z "$(missing_packages "${@:2}")" ]; }; fi

# end_of_tools: with --tools the check ends here.
end_of_tools() { [ "$mode" != --tools ] || exit 0; }

# unavailable TEXT: without this nothing can be tried. The quick form is skipped, the whole one fails.
unavailable() {
    [ "$mode" = --quick ] || die "$1"
    skipped "$1"
    finish_checks
}

die() {
    say "$*"
    exit 1
}

# at_most LIMIT VALUE
at_most() { [ "$2" -le "$1" ] || { echo "$2 is more than $1" && return 1; }; }

# within SECONDS COMMAND...: repeats a command until it succeeds.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { echo "not within the time: $*" && return 1; }
        sleep 0.1
    done
}

# private_mounts ARGUMENTS...: starts the script again where its mounts are its own and end with it.
private_mounts() {
    [ "$(id -u)" = 0 ] || die "This check makes Debian roots and starts programs in them, so it needs root."
    [ -n "${LANYARD_CHECK_MOUNTS:-}" ] || LANYARD_CHECK_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@"
}

# debian_root FOLDER: a minimal Debian. The first call fetches it; later ones unpack it.
debian_root() {
    local archive=$roots/debian-$suite.tar
    if [ ! -e "$archive" ]; then
        need_packages required debootstrap || return 1
        rm -rf "$roots/new" && mkdir -p "$roots/new" || return 1
        PATH=$PATH:/usr/sbin:/sbin debootstrap --variant=minbase "$suite" "$roots/new" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" \
            >"$roots/debootstrap.log" 2>&1 </dev/null || { tail -n 20 "$roots/debootstrap.log" && return 1; }
        tar --numeric-owner -C "$roots/new" -cf "$archive.new" . && mv "$archive.new" "$archive" && rm -rf "$roots/new" || return 1
    fi
    mkdir -p "$1" && tar --numeric-owner -C "$1" -xpf "$archive" || return 1
    # Nothing is started by a package that is installed.
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" && chmod 0755 "$1/usr/sbin/policy-rc.d" || return 1
    cp -L /etc/resolv.conf "$1/etc/resolv.conf" && mount -t proc proc "$1/proc"
}

# in_root FOLDER COMMAND...: in a minimal environment.
in_root() { (become_in_root "$@"); }

# The same in the place of the calling process, so that `&` gives the command's own pid.
become_in_root() {
    local root=$1
    shift
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        chroot "$root" "$@"
}

# installed_root FOLDER PACKAGE...: a minimal Debian with these packages, files or names, and what they depend on.
installed_root() {
    local root=$1 package packages=()
    shift
    debian_root "$root" || return 1
    for package in "$@"; do
        case $package in
        *.deb) cp "$package" "$root/var/tmp/" && packages+=("/var/tmp/$(basename "$package")") || return 1 ;;
        *) packages+=("$package") ;;
        esac
    done
    in_root "$root" apt-get -q update && in_root "$root" apt-get -q install -y --no-install-recommends "${packages[@]}"
}

# configure_root FOLDER: what an operator writes into the configuration of the package: the client's secret with its line, two lines for
# the user, one changed for the upstream.
configure_root() {
    local secret=$1/etc/lanyard/client.secret
    head -c 18 /dev/urandom | base64 >"$secret" && in_root "$1" chown root:lanyard /etc/lanyard/client.secret &&
        chmod 0640 "$secret" &&
        sed -i -e 's/^# \(      client_secret_file:\|users:\|  robot:\)/\1/' -e 's,upstream: .*,upstream: http://127.0.0.1:7490,' \
            "$1/etc/lanyard/lanyard.yaml"
}

# packages FOLDER: makes the packages in it, unless LANYARD_PACKAGES names a folder that has them.
packages() {
    mkdir -p "$1" || return 1
    if [ -n "${LANYARD_PACKAGES:-}" ]; then
        cp -a "$LANYARD_PACKAGES"/. "$1"
    else
        deploy/package --output "$1" ${LANYARD_BINARIES:+--binaries "$LANYARD_BINARIES"}
    fi
}

# python_with MODULE=VERSION...: packages from PyPI in a place of their own; prints its interpreter.
python_with() {
    local venv=$PWD/.build-roots/venv
    if [ "$mode" = --quick ]; then
        [ -x "$venv/bin/python3" ] && echo "$venv/bin/python3"
        return
    fi
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv" >&2 || return 1
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" </dev/null >&2 && echo "$venv/bin/python3"
}

fetch() { curl --noproxy '*' -s --max-time 5 "$@"; }

# status URL...: the status of a response.
status() { fetch -o /dev/null -w '%{http_code}' "$@"; }

# is_status STATUS URL
is_status() { [ "$(status "$2")" = "$1" ]; }

# rendered PAGE: groff has nothing to say either, and the page is not empty.
rendered() {
    local text warnings
    text=$(mktemp) && warnings=$(mktemp) || return 1
    LC_ALL=C.UTF-8 man --warnings --local-file "$1" >"$text" 2>"$warnings" && cat "$warnings" && [ ! -s "$warnings" ] &&
        grep -q '^DESCRIPTION' "$text" && { [[ $1 = *.5 ]] || grep -q '^SYNOPSIS' "$text"; } &&
        # Each command begins a line of the synopsis.
        [ "$(sed -n '/^SYNOPSIS/,/^DESCRIPTION/p' "$text" | grep -c '^     lanyard')" = \
            "$(sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$1" | grep -c '^\.Nm')" ]
    set -- $?
    rm -f "$text" "$warnings"
    return "$1"
}

# manuals FOLDER COMMAND...: the command succeeds with each manual page below the folder.
manuals() {
    local folder=$1 page
    shift
    for page in "$folder"/*/usr/share/man/man[15]/*.gz; do
        gzip -dc "$page" >"${page%.gz}" && "$@" "${page%.gz}" && rm "${page%.gz}" || return 1
    done
}

# completes_in_SHELL SHARE NAME LINE WORD: the shell loads the program's file, and completes the line to the word.
completes_in_bash() {
    bash --norc --noprofile -c '
        . "$1" && complete -p "$2" && compopt() { :; } && COMP_LINE=$3 && read -ra COMP_WORDS <<<"$3" || exit 1
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_POINT=${#COMP_LINE} COMP_TYPE=9
        "_$2" "$2" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
        printf "%s\n" "${COMPREPLY[@]}" | grep -qxF -e "$4"' - "$1/bash-completion/completions/$2" "${@:2}"
}
# Only a terminal would have it complete a line.
completes_in_zsh() {
    zsh -f -c 'fpath=($1 $fpath) && autoload -U compinit && compinit -D -u && [[ $_comps[$2] = _$2 ]] && autoload +X _$2' - \
        "$1/zsh/vendor-completions" "$2" && grep -qF -e "$4" "$1/zsh/vendor-completions/_$2"
}
# With descriptions behind a tab.
completes_in_fish() {
    fish --no-config -c 'source $argv[1]; complete -C $argv[2] | cut -f 1 | grep -qxF -e $argv[3]' \
        "$1/fish/vendor_completions.d/$2.fish" "$3" "$4"
}

# completes SHELL FOLDER: a command, a flag and a configuration flag of lanyard, a command of lanyard-emulator.
completes() {
    "completes_in_$1" "$2/lanyard/usr/share" lanyard "lanyard sta" status &&
        "completes_in_$1" "$2/lanyard/usr/share" lanyard "lanyard status --adm" --admin &&
        "completes_in_$1" "$2/lanyard/usr/share" lanyard "lanyard run --health-a" --health-address &&
        "completes_in_$1" "$2/lanyard-emulator/usr/share" lanyard-emulator "lanyard-emulator ser" serve
}

# check_command_files FOLDER: the manual pages and the completions of both programs, each below FOLDER/NAME/usr/share.
check_command_files() {
    local shell
    if command -v mandoc >/dev/null; then
        expect "mandoc has no warning" manuals "$1" mandoc -T lint
    else
        skipped "mandoc is not installed: it does not read the manual pages"
    fi
    if command -v man >/dev/null && command -v groff >/dev/null; then
        expect "man has no warning" manuals "$1" rendered
    else
        skipped "man or groff is not installed: the manual pages are not rendered"
    fi
    for shell in bash zsh fish; do
        if command -v "$shell" >/dev/null; then
            expect "$shell completes commands and flags" completes "$shell" "$1"
        else
            skipped "$shell is not installed: it does not load the completions"
        fi
    done
}
