#!/usr/bin/env bash
# From a bare Debian 12 to a trained model: installs what is missing, builds Release, trains configs/fashion_mnist.yaml.
#   ./scripts/quickstart.sh              set up, build, train (again: continues, or says that it is complete)
#   ./scripts/quickstart.sh --no-train   stop after the build
. "$(dirname "$0")/lib.sh"

train=yes
case "${1:-}" in
  "") ;;
  --no-train) train=no ;;
  *) die "usage: quickstart.sh [--no-train]" ;;
esac

cd "$ROOT"
# shellcheck disable=SC2086
need_packages $BUILD_PACKAGES $DATA_PACKAGES
need_libtorch cpu
CONFIGURE_OPTIONS=(-DGPUTRAIN_TESTS=OFF -DGPUTRAIN_BENCH=OFF)
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  need_libtorch cuda
  need_cuda_runtime
  CONFIGURE_OPTIONS+=(-DGPUTRAIN_CUDA=ON)
fi
build_targets all
say "built $BUILD/gputrain ($("$BUILD/gputrain" version))"
[ $train = yes ] || exit 0

say "training configs/fashion_mnist.yaml (validation accuracy of about 0.91 after 5 epochs)"
exec "$BUILD/gputrain" launch configs/fashion_mnist.yaml
