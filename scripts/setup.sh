# Sourced by quickstart and check in the top directory of the checkout. Installs their dependencies, also on an empty
# machine. Prints one line for each step, and skips completed steps. Afterwards $venv is a virtual environment in
# which sm is installed from this checkout.

say() { printf '%s\n' "-- $*"; }
fail() {
    printf 'error: %s\n' "$1" >&2
    [ -z "${2:-}" ] || printf 'hint: %s\n' "$2" >&2
    exit 1
}
# Run a command without its output, which goes to a file that a failure names.
quietly() {
    : "${log:=$(mktemp "${TMPDIR:-/tmp}/sm-setup-XXXXXX")}"
    printf '$ %s\n' "$*" >>"$log"
    if "$@" >>"$log" 2>&1; then return; else code=$?; fi
    say "the output of the failed command is in $log"
    return $code
}
have() { command -v "$1" >/dev/null 2>&1; }

# Remove settings of the caller that would install packages elsewhere or prevent their compilation. Keep the settings
# for the source of packages (index, proxy, certificates, cache).
clean_environment() {
    unset CDPATH PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE PYTHONWARNINGS PYTHONSTARTUP VIRTUAL_ENV
    for name in $(env | sed -n 's/^\(PIP_[A-Z_]*\)=.*/\1/p'); do
        case $name in
        *INDEX* | *LINKS | *HOST | *CERT | *PROXY | *CONFIG_FILE | *CACHE_DIR | *TIMEOUT | *RETRIES | *KEYRING*) ;;
        *) unset "$name" ;;
        esac
    done
    # Set explicitly, because a configuration file may have other values.
    export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
}

# $1: the package manager with its options; the rest are packages.
install_with() {
    if [ "$(id -u)" = 0 ]; then
        sudo=""
    elif ! have sudo; then
        # A new machine has no list of packages, and the options are for a script.
        case $1 in apt-get*) shift; set -- "apt-get update && apt-get install" "$@" ;; esac
        fail "installing system packages needs root, and there is no sudo" "as root: $*"
    elif [ -t 0 ]; then
        sudo=sudo
    else
        sudo="sudo -n" # not interactive: nobody can type a password
    fi
    if [ "${1%% *}" = apt-get ] && [ -z "${refreshed:-}" ]; then
        say "updating the package list: apt-get update"
        quietly $sudo apt-get -qq update
        refreshed=yes
    fi
    say "installing: $*"
    quietly $sudo env DEBIAN_FRONTEND=noninteractive $*
}

# $@: the missing programs: tmux, git, npm, python, pythonX.Y, or venv (the module for the Python in $python).
install() {
    names="" debian=""
    for need; do
        case $need in
        python) names="$names python3" debian="$debian python3 python3-venv" ;;
        # Debian has a separate package for this module.
        venv) names="$names python3" debian="$debian $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" ;;
        python3.*) names="$names $need" debian="$debian $need $need-venv" ;;
        *) names="$names $need" debian="$debian $need" ;;
        esac
    done
    if have apt-get; then
        install_with "apt-get -qq -o DPkg::Lock::Timeout=120 install --no-install-recommends" $debian
    elif have dnf; then
        install_with "dnf -y -q install" $names
    elif have pacman; then
        install_with "pacman -S --needed --noconfirm" $(printf '%s' "$names" | sed 's/python3/python/')
    elif have zypper; then
        install_with "zypper -q --non-interactive install" $(printf '%s' "$names" | sed 's/python3\./python3/')
    elif have apk; then
        install_with "apk add -q" $names
    else
        fail "this script knows no package manager of this system" "install by hand:$names"
    fi
}

# Print the first Python that is new enough. Prefer one that can create virtual environments.
find_python() {
    for modules in "sys, ensurepip, venv" sys; do
        for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
            if "$candidate" -c "import $modules; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then
                command -v "$candidate"
                return
            fi
        done
    done
}

# Print the Python of the operating system, if it is new enough.
find_system_python() {
    for candidate in /usr/bin/python3.11 /usr/bin/python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

# $1: "system" prefers the Python of the operating system to a newer one in PATH, as the checks do: they run on the
# oldest Python that users of this system have.
setup_system() {
    [ "$(uname -s)" = Linux ] || fail "sm runs on Linux only (WSL2 included), and this is $(uname -s)"
    missing=""
    for need in tmux git; do
        have $need || missing="$missing $need"
    done
    if [ "${1:-}" = system ]; then
        python=$(find_system_python)
        if [ -n "$python" ] && ! "$python" -c 'import ensurepip, venv' 2>/dev/null && ! (install venv) 2>/dev/null; then
            say "$python cannot create virtual environments, so the checks use another Python"
            python=""
        fi
        [ -n "$python" ] || python=$(find_python)
    else
        python=$(find_python)
    fi
    if [ -z "$python" ]; then
        missing="$missing python"
    elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        missing="$missing venv"
    fi
    [ -z "$missing" ] || install $missing ||
        fail "the packages could not be installed" "check the network"
    # An older system may offer a newer Python as a separate package.
    for version in 3.13 3.12 3.11; do
        [ -n "$python" ] || python=$(find_python)
        [ -z "$python" ] || break
        install "python$version" || say "this system has no package python$version"
    done
    [ -n "$python" ] || fail "Python 3.11 or newer is not installed" "install it and repeat"
    case $(tmux -V) in
    "tmux "[012].* | "tmux 3."[01]*) fail "$(tmux -V) is too old, sm needs 3.2" "install a newer tmux and repeat" ;;
    esac
}

# $1: a Python. Print its full version.
version_of() { "$1" -c 'import platform; print("Python", platform.python_version())'; }

# $1: "dev" also installs the packages of the checks. The environment then has the version of $python.
setup_venv() {
    venv=.venv extra=${1:-}
    [ -w . ] || fail "you cannot write to $PWD" "run this as its owner, or in a copy"
    wanted="$(cksum <pyproject.toml) $PWD"
    if [ -e $venv ]; then
        # Unusable if its Python is gone or too old, or if the checkout was moved: its commands contain the path.
        place=$(cat $venv/.place 2>/dev/null || printf '%s' "$PWD")
        if [ "$place" != "$PWD" ] ||
            ! $venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            say "removing $venv, which no longer works"
            rm -rf $venv
        elif [ "$extra" = dev ] && [ "$(version_of $venv/bin/python)" != "$(version_of "$python")" ]; then
            say "removing $venv, which has $(version_of $venv/bin/python) and not $(version_of "$python") of $python"
            rm -rf $venv
        fi
    fi
    if [ ! -e $venv ]; then
        say "creating a virtual environment in $venv with $("$python" --version)"
        quietly "$python" -m venv $venv || fail "the virtual environment could not be created"
    fi
    printf '%s' "$PWD" >$venv/.place
    # An environment for the checks is also one for users.
    case "$(cat $venv/.installed 2>/dev/null)" in "$wanted $extra" | "$wanted dev") return ;; esac
    case $extra in dev) checks=", its checks" ;; *) checks="" ;; esac
    say "installing sm$checks and its dependencies into $venv"
    quietly $venv/bin/python -m pip install -q -e ".${extra:+[$extra]}" ||
        fail "pip could not install sm" "check the network; HTTPS_PROXY and PIP_INDEX_URL configure the access"
    # Compile now, so that the first command is fast, and also later commands of users who cannot write here.
    $venv/bin/python -m compileall -q src
    printf '%s' "$wanted $extra" >$venv/.installed
}

# On a terminal, offer a link to sm in ~/.local/bin, which most systems have in PATH. Else print the command.
offer_link() {
    target=$PWD/$venv/bin/sm place=$HOME/.local/bin/sm
    if [ -e "$place" ] && [ "$(readlink -f "$place")" = "$(readlink -f "$target")" ]; then return; fi
    if [ -e "$place" ] || [ -L "$place" ]; then
        say "$place is another program; it stays"
        return 0
    fi
    answer=""
    if [ -t 0 ] && [ -t 1 ]; then
        printf 'Link sm into ~/.local/bin? [y/N] '
        read -r answer || answer=""
    fi
    case $answer in
    [yY] | [yY][eE][sS])
        mkdir -p "$HOME/.local/bin" && ln -s "$target" "$place" && say "linked $place"
        case ":$PATH:" in *":$HOME/.local/bin:"*) ;; *) say "add ~/.local/bin to your PATH" ;; esac
        ;;
    *) say "to type sm anywhere: mkdir -p ~/.local/bin && ln -s '$target' ~/.local/bin/sm" ;;
    esac
}

# The oldest version that sm is right about. `./check --full` also runs the tests of the real claude with it.
oldest_claude=2.1.197

# Install the real Claude Code for the tests that run it. If it cannot be installed, print one line; the tests are
# skipped, and all other checks still run.
setup_claude() {
    version=2.1.332
    package=node_modules/@anthropic-ai/claude-code
    runs_claude && return
    if ! have npm && ! (install npm) 2>/dev/null; then
        say "npm could not be installed: the tests with the real claude are skipped"
        return
    fi
    say "installing claude $version for some tests into node_modules"
    # Its only script runs here and not in npm, whose settings may forbid scripts. Only node_modules is written.
    if ! problem=$(npm install --prefix . --global=false --no-save --no-package-lock --no-audit --no-fund \
        --loglevel=error --include=optional --ignore-scripts --fetch-retries=1 --fetch-retry-mintimeout=1000 \
        --fetch-timeout=120000 "@anthropic-ai/claude-code@$version" 2>&1) || ! problem=$(node $package/install.cjs 2>&1); then
        problem=$(printf '%s\n' "$problem" | sed -nE 's/^npm (ERR!|error) code //p' | head -n 1)
        say "claude could not be installed${problem:+ ($problem)}: the tests with it are skipped"
    elif ! runs_claude; then
        say "claude $version does not run here: the tests with it are skipped"
    fi
}

runs_claude() {
    case $(node_modules/.bin/claude --version 2>/dev/null) in "$version "*) ;; *) return 1 ;; esac
}

# Install the engine for the tests of sandboxes, and the program that makes a base image without a registry. Only root
# on Debian: the tests start their own engine, which needs root. Otherwise print one line; the tests are skipped.
setup_engine() {
    skipped="the tests of sandboxes are skipped"
    [ -z "${SM_TEST_ENGINE:-}" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        say "no root, and SM_TEST_ENGINE names no Docker engine: $skipped"
    elif have dockerd && have docker && have debootstrap; then
        return 0
    elif ! have apt-get || ! grep -qx 'ID=debian' /etc/os-release; then
        say "docker and debootstrap are not installed, and this is not Debian: $skipped"
    elif ! without_services install docker.io debootstrap; then
        say "docker.io and debootstrap could not be installed: $skipped"
    fi
}

# Make the images for the tests of sandboxes, after setup_venv and setup_engine.
setup_images() {
    { have docker && have debootstrap; } || [ -n "${SM_TEST_ENGINE:-}" ] || return 0
    [ -e .engine/images ] || say "making the images for the tests of sandboxes, which takes minutes once"
    quietly $venv/bin/python -m tests.engine_images ||
        say "not all images for the tests of sandboxes could be made"
}

# Install the browser for the tests of the page, with fonts for its pictures, and the check of accessibility. Only on
# Debian. Otherwise print one line; the tests are skipped. The shell of chromium has the same engine as chromium without
# the parts for windows: a page takes less than half of the processor time. Without it the tests use chromium.
setup_browser() {
    skipped="the tests of the page are skipped"
    ! have chromium || skipped="the tests of the page take twice the time in chromium"
    if ! have chromium-headless-shell; then
        if ! have apt-get || ! grep -qx 'ID=debian' /etc/os-release; then
            say "chromium-headless-shell is not installed, and this is not Debian: $skipped"
        elif ! (without_services install chromium-headless-shell fonts-dejavu-core fonts-noto-cjk \
            fonts-noto-color-emoji); then
            say "chromium-headless-shell could not be installed: $skipped"
        fi
        have chromium-headless-shell || have chromium || return 0
    fi
    axe=4.14.1
    grep -qs "\"version\": \"$axe\"" node_modules/axe-core/package.json && return
    if ! have npm && ! (install npm) 2>/dev/null; then
        say "npm could not be installed: the test of accessibility is skipped"
        return
    fi
    say "installing axe-core $axe for the test of accessibility into node_modules"
    # Packed and unpacked, because an installation with npm removes the other packages that nobody has saved.
    unpacked=$(mktemp -d "${TMPDIR:-/tmp}/sm-axe-XXXXXX")
    if (cd "$unpacked" && quietly npm pack --silent "axe-core@$axe" && tar -xzf axe-core-*.tgz); then
        mkdir -p node_modules && rm -rf node_modules/axe-core && mv "$unpacked/package" node_modules/axe-core
    else
        say "axe-core could not be installed: the test of accessibility is skipped"
    fi
    rm -rf "$unpacked"
}

# Install the program of GitHub for the tests of `sm pr` with the real one. Only on Debian. Otherwise print one line; the
# tests are skipped.
setup_gh() {
    skipped="the tests with the real gh are skipped"
    if have gh; then
        return 0
    elif ! have apt-get || ! grep -qx 'ID=debian' /etc/os-release; then
        say "gh is not installed, and this is not Debian: $skipped"
    elif ! (without_services install gh); then
        say "gh could not be installed: $skipped"
    fi
}

# Run a command that installs packages, and start none of their services: the service of docker.io changes the firewall.
without_services() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        trap 'rm -f $policy' EXIT
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
    fi
    "$@"
)
