#!/bin/sh
# Sees to it that a Java 17+ runtime is there (Spark needs one): finds it, or installs it by the system's package
# manager, or says what to install. Silent where there is nothing to do. --check only looks: status 1 without one.
set -eu

found() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/java}
    java=${java:-java}
    major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

found && exit 0
[ "${1:-}" = --check ] && exit 1
echo "no Java 17+ runtime found: trying to install one" >&2
{
    if command -v apt-get >/dev/null; then
        # Debian 12 has 17, Debian 13 has 21, Ubuntu has both.
        as_root apt-get update -qq
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless ||
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jre-headless
    elif command -v dnf >/dev/null; then
        as_root dnf install -y -q java-21-openjdk-headless || as_root dnf install -y -q java-17-openjdk-headless
    elif command -v apk >/dev/null; then
        as_root apk add --quiet openjdk17-jre-headless
    elif command -v brew >/dev/null; then
        brew install --quiet openjdk@17
        echo "brew keeps it out of the path: export JAVA_HOME=$(brew --prefix openjdk@17)/libexec/openjdk.jdk/Contents/Home" >&2
    fi
} >&2 </dev/null || true
found && exit 0
echo "Spark needs a Java 17 (or newer) runtime: install one (Debian: openjdk-17-jre-headless) or set JAVA_HOME" >&2
exit 1
