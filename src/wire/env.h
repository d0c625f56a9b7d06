#pragma once
// Names in the environment and inherited file descriptors: the contract between agent and worker beyond the messages.
namespace gputrain::env {

inline constexpr int kWorkerSocketFd = 3;  // the worker's end of the socket pair
inline constexpr int kProgressPageFd = 4;  // memfd holding a ProgressPage
inline constexpr int kStoreListenFd = 5;   // rank 0 only: the listening socket for c10d::TCPStore

// Internal, for tests (documented in CONTRIBUTING.md). HOLD=phase@step: the rank that enters `phase` of `step` waits
// there until a stop is asked or it is killed; GPUTRAIN_INTERNAL_HOLD_RANK limits it to one rank. HOLD_ONCE=PATH: hold
// only if PATH can be created.
inline constexpr char kHold[] = "GPUTRAIN_INTERNAL_HOLD";
inline constexpr char kHoldRank[] = "GPUTRAIN_INTERNAL_HOLD_RANK";
inline constexpr char kHoldOnce[] = "GPUTRAIN_INTERNAL_HOLD_ONCE";
// TRACE=DIR: ranks append to DIR/attempt-A-rank-R.jsonl per step {step, ids, all_reduces, parameters_hash}.
inline constexpr char kTrace[] = "GPUTRAIN_INTERNAL_TRACE";
// TRACE_GRADIENTS=1, with TRACE: also the averaged gradients of each step, before clipping, by parameter name, in
// DIR/attempt-A-rank-R.gradients-STEP.safetensors.
inline constexpr char kTraceGradients[] = "GPUTRAIN_INTERNAL_TRACE_GRADIENTS";
// GROUP_OF_ONE=1: a world of one makes real groups and reduces too: checks of NCCL on a machine with one GPU.
inline constexpr char kGroupOfOne[] = "GPUTRAIN_INTERNAL_GROUP_OF_ONE";
// Where gputrain-worker and libgputrain_cuda.so are, when not beside the running executable.
inline constexpr char kWorker[] = "GPUTRAIN_WORKER";

}  // namespace gputrain::env
