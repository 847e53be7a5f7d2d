#!/bin/sh
# ensure.sh go|postgres|chromium ... : makes sure that each named program is here.
# What is missing is installed by the system's package manager where that needs no password. Elsewhere the one command to
# run is printed, and the exit status is 1.
#
# ENSURE_ROOT is put before the system's folders when looking for programs (tests use it). Beside the programs it looks
# for, and a package manager, the script needs nothing but a shell, id, env and cat.
set -u

root=${ENSURE_ROOT:-}
say() { printf '%s\n' "ensure: $*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

# major prints N of a version such as "postgres (PostgreSQL) 15.8 (Debian ...)" or "go version go1.26.8 linux/amd64".
major() {
	for word in "$@"; do
		word=${word#go}
		case $word in
		[0-9]*) printf '%s\n' "${word%%[!0-9]*}" && return ;;
		esac
	done
	echo 0
}

# minor prints M of such a version N.M.
minor() {
	for word in "$@"; do
		word=${word#go}
		case $word in
		[0-9]*.[0-9]*) word=${word#*.} && printf '%s\n' "${word%%[!0-9]*}" && return ;;
		esac
	done
	echo 0
}

# found_go: 1.21 is the first that fetches the toolchain go.mod asks for by itself.
found_go() {
	has go || return 1
	version=$(cd / && go version 2>/dev/null)
	# shellcheck disable=SC2086 # words are wanted
	[ "$(major $version)" -gt 1 ] || [ "$(minor $version)" -ge 21 ]
}

# postgres_bin DIR: whether a usable server is there. The places and the oldest version are those of server/pglocal.
postgres_bin() {
	[ -x "$1/initdb" ] && [ -x "$1/postgres" ] || return 1
	# shellcheck disable=SC2046 # words are wanted
	[ "$(major $(cd / && "$1/postgres" --version 2>/dev/null))" -ge 14 ]
}

found_postgres() {
	old=$IFS
	IFS=:
	for dir in $PATH; do
		IFS=$old
		postgres_bin "$dir" && return 0
	done
	IFS=$old
	for dir in "$root"/usr/lib/postgresql/*/bin "$root"/usr/lib/postgresql*/bin "$root"/usr/libexec/postgresql* \
		"$root"/usr/pgsql-*/bin "$root"/usr/local/pgsql/bin "$root"/usr/local/opt/postgresql*/bin \
		"$root"/opt/homebrew/opt/postgresql*/bin "$root"/opt/local/lib/postgresql*/bin \
		"$root"/Applications/Postgres.app/Contents/Versions/*/bin "$root"/run/current-system/sw/bin; do
		postgres_bin "$dir" && return 0
	done
	return 1
}

found_chromium() {
	for name in chromium chromium-browser google-chrome; do # the names that web/browser tries
		has "$name" && return 0
	done
	[ -x "$root/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ] ||
		[ -x "$root/Applications/Chromium.app/Contents/MacOS/Chromium" ]
}

# manager prints the package manager's name.
manager() {
	for name in apt-get dnf pacman apk zypper brew; do
		has $name && echo $name && return
	done
	return 1
}

# install_command MANAGER PROGRAM prints what installs it, without sudo.
install_command() {
	case $1.$2 in
	apt-get.postgres) echo "apt-get install -y --no-install-recommends postgresql" ;;
	apt-get.chromium)
		case $(cat "$root/etc/os-release" 2>/dev/null) in
		*ID=ubuntu*) echo "apt-get install -y chromium-browser" ;; # which brings the snap
		*) echo "apt-get install -y --no-install-recommends chromium fonts-liberation" ;;
		esac
		;;
	dnf.postgres) echo "dnf install -y postgresql-server" ;;
	pacman.postgres) echo "pacman -S --noconfirm --needed postgresql" ;;
	apk.postgres) echo "apk add postgresql" ;;
	zypper.postgres) echo "zypper --non-interactive install postgresql-server" ;;
	brew.postgres) echo "brew install postgresql@17" ;;
	dnf.chromium) echo "dnf install -y chromium" ;;
	pacman.chromium) echo "pacman -S --noconfirm --needed chromium" ;;
	apk.chromium) echo "apk add chromium font-liberation" ;;
	zypper.chromium) echo "zypper --non-interactive install chromium" ;;
	brew.chromium) echo "brew install --cask chromium" ;;
	*) return 1 ;;
	esac
}

# install PREFIX COMMAND: PREFIX is "" or "sudo -n". No shell sees the words again; none of them comes from outside.
# shellcheck disable=SC2086 # words are wanted
install() {
	if [ "$2" != "${2#apt-get }" ]; then
		# Old lists name packages that are gone. A failure here is not the last word: the lists may do.
		$1 env DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null >&2 || say "apt-get update failed; trying with the lists as they are"
		$1 env DEBIAN_FRONTEND=noninteractive $2 </dev/null >&2
		return
	fi
	$1 $2 </dev/null >&2
}

missing() {
	say "$1 is missing, and there is no package manager here that this script knows."
	case $1 in
	postgres) say "Install PostgreSQL 14 or newer, or set DATABASE_URL to a database of yours." ;;
	chromium) say "Install Chromium or Google Chrome." ;;
	esac
}

ensure() {
	case $1 in
	go | postgres | chromium) ;;
	*) say "what is \"$1\"? Use go, postgres or chromium." && return 2 ;;
	esac
	"found_$1" && return 0
	if [ "$1" = go ]; then
		say "Go 1.21 or newer is missing (it fetches the exact version this project needs by itself)."
		say "Get it from https://go.dev/dl/, put its bin folder on PATH, and run make again."
		return 1
	fi
	if ! pm=$(manager) || ! command=$(install_command "$pm" "$1"); then
		missing "$1"
		return 1
	fi
	prefix=
	if [ "$pm" != brew ] && [ "$(id -u)" != 0 ]; then
		if has sudo && sudo -n true 2>/dev/null; then
			prefix="sudo -n"
		else
			say "$1 is missing, and installing it needs a password. Run this, then make again:"
			printf '  sudo %s\n' "$command" >&2
			return 1
		fi
	fi
	say "$1 is missing; installing it: ${prefix:+sudo }$command"
	install "$prefix" "$command" || say "$command failed"
	"found_$1" && return 0
	say "$1 is still missing. Install it by hand, then run make again."
	return 1
}

[ $# -gt 0 ] || {
	say "usage: ensure.sh go|postgres|chromium ..."
	exit 2
}
status=0
for program in "$@"; do
	ensure "$program" || status=$?
done
exit "$status"
