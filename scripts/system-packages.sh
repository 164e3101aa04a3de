#!/usr/bin/env bash
# Installs the system packages that are missing: RabbitMQ, Redis and Python's venv module.
#
# Usage: system-packages.sh PACKAGE...   of rabbitmq-server, redis-server, python3-venv
#
# Quiet and without network when nothing is missing. Uses apt as root or with sudo; elsewhere it
# says what to do. The installed servers are neither started nor enabled: throttle runs private ones.
# PYTHON names the Python that `make setup` builds its virtual environment with.
set -euo pipefail

PYTHON=${PYTHON:-python3}
WANTED=("$@")
POLICY=/usr/sbin/policy-rc.d
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

missing_packages() {
    for package in "${WANTED[@]}"; do
        case $package in
            # Debian's python3 has no ensurepip until python3-venv brings it.
            python3-venv) "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || echo "$package" ;;
            *) command -v "$package" >/dev/null || echo "$package" ;;
        esac
    done
}

give_up() {
    cat >&2 <<MESSAGE
make setup: missing on this machine: $*
$reason
Ways out:
  - on Debian or Ubuntu, have an administrator run: apt-get install $*
  - elsewhere, install RabbitMQ 3.10 or newer and Redis 7 or newer in any way that puts
    rabbitmq-server and redis-server on PATH, and a Python 3.11 or newer with venv
    (name it with: make setup PYTHON=/path/to/python3)
  - with Docker, run the whole service from docker-compose.yml instead
  - to use servers that run elsewhere, run make venv, then set THROTTLE_BROKER_URL and
    THROTTLE_REDIS_URL (make demo and make test need servers of their own on this machine)
MESSAGE
    exit 1
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    local install=(apt-get install --yes --no-install-recommends -- "$@")
    forbid_service_starts
    # Package lists may be absent (fresh machine) or too old: only then is an update worth its time.
    "${install[@]}" || { apt-get update && "${install[@]}"; } || return 1
    if [ -d /run/systemd/system ]; then
        for package in "$@"; do
            systemctl disable --quiet "$package" 2>/dev/null || true  # python3-venv is no service
        done
    fi
}

# A policy-rc.d that answers 101 keeps apt from starting services; the one that was there comes back.
forbid_service_starts() {
    trap allow_service_starts EXIT
    trap 'exit 130' INT TERM
    if [ -e "$POLICY" ] && [ ! -e "$POLICY.before-throttle" ]; then
        mv "$POLICY" "$POLICY.before-throttle"
    fi
    printf '#!/bin/sh\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
}

allow_service_starts() {
    rm -f "$POLICY"
    if [ -e "$POLICY.before-throttle" ]; then
        mv "$POLICY.before-throttle" "$POLICY"
    fi
}

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "make: $PYTHON is no Python 3.11 or newer; name one: make PYTHON=/path/to/python3" >&2
    exit 1
fi

mapfile -t packages < <(missing_packages)
if [ ${#packages[@]} -eq 0 ]; then
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    reason="They cannot be installed from here: there is no apt-get."
    give_up "${packages[@]}"
fi
if [ "$(id -u)" -ne 0 ]; then
    # Without a terminal sudo could not ask for a password.
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        echo "make setup: installing ${packages[*]} with sudo" >&2
        exec sudo -- env PYTHON="$(command -v "$PYTHON")" "$0" "$@"
    fi
    reason="They cannot be installed from here: you are not root, and sudo is not to be had."
    give_up "${packages[@]}"
fi

echo "make setup: installing ${packages[*]}" >&2
install_packages "${packages[@]}" || {
    reason="apt-get could not install them (its messages are above)."
    give_up "${packages[@]}"
}
mapfile -t packages < <(missing_packages)
if [ ${#packages[@]} -ne 0 ]; then
    reason="apt-get has just run, but they are still not found (is $PYTHON the system's Python?)."
    give_up "${packages[@]}"
fi
