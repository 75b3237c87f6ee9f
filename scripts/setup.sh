# Sourced by quickstart and check, from the top of the checkout: all that they need on a machine that has nothing.
# Says one line for each thing it does, and does nothing that is done already. After it, $venv holds a virtual
# environment with sm installed from this checkout.

say() { printf '%s\n' "-- $*"; }
fail() {
    printf 'error: %s\n' "$1" >&2
    [ -z "${2:-}" ] || printf 'hint: %s\n' "$2" >&2
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# Settings of the caller's that would send packages elsewhere, or keep them from being compiled. What says where
# packages come from (index, proxy, certificates, cache) stays.
clean_environment() {
    unset CDPATH PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE PYTHONWARNINGS PYTHONSTARTUP VIRTUAL_ENV
    for name in $(env | sed -n 's/^\(PIP_[A-Z_]*\)=.*/\1/p'); do
        case $name in
        *INDEX* | *LINKS | *HOST | *CERT | *PROXY | *CONFIG_FILE | *CACHE_DIR | *TIMEOUT | *RETRIES | *KEYRING*) ;;
        *) unset "$name" ;;
        esac
    done
    # Said here, because a configuration file may say otherwise.
    export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
}

# $1: the package manager with its options; the rest are packages.
install_with() {
    if [ "$(id -u)" = 0 ]; then
        sudo=""
    elif ! have sudo; then
        fail "installing system packages needs root, and there is no sudo" "as root: $*"
    elif [ -t 0 ]; then
        sudo=sudo
    else
        sudo="sudo -n" # nobody is there to type a password
    fi
    if [ "${1%% *}" = apt-get ] && [ -z "${refreshed:-}" ]; then
        say "refreshing the list of packages: apt-get update"
        $sudo apt-get -qq update
        refreshed=yes
    fi
    say "installing: $*"
    $sudo env DEBIAN_FRONTEND=noninteractive $* >/dev/null
}

# $@: what is missing, of tmux, git, npm, python, venv (the module of the Python in $python) and pythonX.Y.
install() {
    names="" debian=""
    for need; do
        case $need in
        python) names="$names python3" debian="$debian python3 python3-venv" ;;
        # Debian keeps it in a package of its own.
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
        fail "no package manager that this script knows" "install by hand:$names"
    fi
}

# The first Python that is new enough, one that can make virtual environments before all others.
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

setup_system() {
    [ "$(uname -s)" = Linux ] || fail "sm runs on Linux only (WSL2 included), and this is $(uname -s)"
    missing=""
    for need in tmux git; do
        have $need || missing="$missing $need"
    done
    python=$(find_python)
    if [ -z "$python" ]; then
        missing="$missing python"
    elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        missing="$missing venv"
    fi
    [ -z "$missing" ] || install $missing ||
        fail "the packages could not be installed" "is there a network?"
    # An older system has a newer Python beside its own.
    for version in 3.13 3.12 3.11; do
        python=$(find_python)
        [ -z "$python" ] || break
        install "python$version" || say "there is no python$version for this system"
    done
    [ -n "$python" ] || fail "there is no Python 3.11 or newer" "install one and repeat"
    case $(tmux -V) in
    "tmux "[012].* | "tmux 3."[01]*) fail "$(tmux -V) is too old, sm needs 3.2" "install a newer tmux and repeat" ;;
    esac
}

# $1: what to install besides sm itself: dev or nothing.
setup_venv() {
    venv=.venv
    [ -w . ] || fail "$PWD is not yours to write in" "run this as its owner, or in a copy"
    wanted="$(cksum <pyproject.toml) $PWD"
    if [ -e $venv ]; then
        # Useless when its Python is gone or too old, and when the checkout was moved: its commands hold their path.
        place=$(cat $venv/.place 2>/dev/null || printf '%s' "$PWD")
        if [ "$place" != "$PWD" ] ||
            ! $venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            say "removing $venv, which does not work any more"
            rm -rf $venv
        fi
    fi
    if [ ! -e $venv ]; then
        say "making a virtual environment in $venv with $("$python" --version)"
        "$python" -m venv $venv || fail "the virtual environment could not be made"
    fi
    printf '%s' "$PWD" >$venv/.place
    # What is there with dev serves without, too.
    case "$(cat $venv/.installed 2>/dev/null)" in "$wanted ${1:-}" | "$wanted dev") return ;; esac
    say "installing sm${1:+, what checks it,} and what it needs into $venv"
    $venv/bin/python -m pip install -q -e ".${1:+[$1]}" ||
        fail "pip could not install sm" "is there a network? HTTPS_PROXY and PIP_INDEX_URL say how to get out"
    # Compiled now, so that the first command is fast, and every one where nothing may be written later.
    $venv/bin/python -m compileall -q src
    printf '%s' "$wanted ${1:-}" >$venv/.installed
}

# The real Claude Code, for the tests that run it. Where it cannot be had, one line says so and they are skipped:
# whoever has no way to it can still check all the rest.
setup_claude() {
    version=2.1.197
    package=node_modules/@anthropic-ai/claude-code
    runs_claude && return
    if ! have npm && ! (install npm) 2>/dev/null; then
        say "there is no npm and it could not be installed: tests of the real claude will be skipped"
        return
    fi
    say "installing claude $version, which some tests run, into node_modules"
    # Its one script is run here and not by npm, whose settings may forbid scripts. Nothing is written beside node_modules.
    if ! problem=$(npm install --prefix . --global=false --no-save --no-package-lock --no-audit --no-fund \
        --loglevel=error --include=optional --ignore-scripts --fetch-retries=1 --fetch-retry-mintimeout=1000 \
        --fetch-timeout=120000 "@anthropic-ai/claude-code@$version" 2>&1) || ! problem=$(node $package/install.cjs 2>&1); then
        problem=$(printf '%s\n' "$problem" | sed -nE 's/^npm (ERR!|error) code //p' | head -n 1)
        say "claude could not be fetched${problem:+ ($problem)}: tests of it will be skipped"
    elif ! runs_claude; then
        say "claude $version does not run here: tests of it will be skipped"
    fi
}

runs_claude() {
    case $(node_modules/.bin/claude --version 2>/dev/null) in "$version "*) ;; *) return 1 ;; esac
}
