#!/usr/bin/env bash
# Builds docker/Dockerfile.cpu on a bare debootstrap root, without a Docker engine. Root, about 20 minutes, 6 GB. CTest label `image`.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || die "image_test.sh needs root (debootstrap, buildah with chroot isolation)"
need_packages debootstrap buildah

work=$(mktemp -d "${TMPDIR:-/tmp}/gputrain-image-XXXXXX")
export STORAGE_DRIVER=vfs
store=(--root "$work/store" --runroot "$work/run")
trap 'buildah "${store[@]}" rm --all >/dev/null 2>&1; rm -rf "$work"' EXIT

say "bare Debian 12 root"
mirror=$(awk '/^deb .*bookworm main/ {for (i = 2; i <= NF; ++i) if ($i ~ /^(https?|file|copy|mirror)/) {print $i; exit}}' \
  /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true)
[ -n "$mirror" ] || mirror=$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
[ -n "$mirror" ] || die "no Debian mirror found in this machine's apt sources"
debootstrap --variant=minbase --include=ca-certificates bookworm "$work/root" "$mirror" >"$work/debootstrap.log" 2>&1 || { tail -n 20 "$work/debootstrap.log" >&2; die "debootstrap failed"; }
rm -rf "$work"/root/var/cache/apt/archives/*.deb
tar -C "$work/root" -cf "$work/rootfs.tar" .
printf 'FROM scratch\nADD rootfs.tar /\n' >"$work/Containerfile"
buildah "${store[@]}" bud --isolation chroot -t bare -f "$work/Containerfile" "$work" >"$work/base.log" 2>&1 || { tail -n 20 "$work/base.log" >&2; die "cannot make the base image"; }

say "Dockerfile.cpu"
mounts=()
for path in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/trusted.gpg.d /usr/share/keyrings /etc/pip.conf \
            /etc/ssl/certs /usr/local/share/ca-certificates; do
  [ -e "$path" ] && mounts+=(-v "$path:$path:ro")
done
settings=()
while IFS= read -r line; do settings+=(--env "$line"); done < <(env | grep -E '^(https?_proxy|no_proxy|PIP_(CERT|INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT)|SSL_CERT_FILE|REQUESTS_CA_BUNDLE)=' || true)
git -C "$ROOT" clone -q --local --no-hardlinks "$ROOT" "$work/source"
buildah "${store[@]}" bud --isolation chroot --layers=false "${mounts[@]}" "${settings[@]}" --build-arg BASE=localhost/bare -f docker/Dockerfile.cpu "$work/source"
say "a bare Debian 12 builds, passes the unit tests and trains"
