#pragma once
// Every message between controller, agent and worker (design section 3): one truth for both halves of the program.
//
//   controller <-> agent    frames over stdio (a local child, later ssh) or TCP
//   agent <-> worker        frames over a Unix socket pair; the worker knows only its socket
//
// One attempt, in order:
//   agent:      AgentHello                                    (once a connection; agents outlive attempts)
//   controller: Listen -> rank 0's agent: Listening           (a fresh store port, bound by the agent, passed to rank 0
//   as an open fd) controller: Start -> each agent starts its ranks: RankStarted; worker: WorkerHello; agent: Assign
//   worker:     Ready or WorkerError (relayed as RankReady / RankError)
//   controller: when all are ready: Go (relayed) -> Record, Sync/Synced ... -> Done (relayed as RankDone)
//   controller: when all are done: Release (relayed) -> the workers exit 0 -> RankExited
// Any time: Stop (orderly), Kill (now), Heartbeat both ways, Credit (flow control of Records).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "util/error.h"
#include "util/json.h"

namespace gputrain {

inline constexpr std::chrono::milliseconds kHeartbeat{1000};     // between heartbeats, at most
inline constexpr std::chrono::milliseconds kShortestLease{500};  // launch.lease; what an agent assumes until told
inline constexpr std::chrono::milliseconds kStopSlack{1000};     // agents kill at grace + this, if nobody did before

// A lease outlives the loss of a heartbeat or two, and the 100 ms ticks of both sides.
inline std::chrono::milliseconds heartbeat_interval(std::chrono::milliseconds lease) {
  return std::min(kHeartbeat, lease / 4);
}

// Why a run stops in an orderly way. It decides the exit code once the ranks have saved.
enum class StopReason { kNone = 0, kPreempted = 1, kUserStop = 2, kInterrupted = 3, kMaxDuration = 4 };
std::string_view to_string(StopReason);
StopReason stop_reason_from(std::string_view word);  // kNone for an unknown word

// An Error on the wire.
struct WireError {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message, where, hint;
  int culprit = -1;  // the rank to blame, where every rank reports the same; -1: who reports it
};

// What a rank was doing: read from its progress page by its agent, also after its death.
struct ProgressSnapshot {
  uint64_t step = 0;         // step being executed (1-based), 0 before the first
  std::string phase;         // to_string(Phase)
  uint64_t collectives = 0;  // gradient all-reduces issued since the rank started
};

// ---- agent -> controller ----
struct AgentHello {
  std::string version;
  int pid = 0;
  std::string host;
  int cores = 0;
  int gpus = 0;
  std::string boot_id;
};
struct Listening {
  int attempt = 0;
  std::string address;
  int port = 0;
  std::string problem;
};  // problem: why there is no port
struct RankStarted {
  int attempt = 0;
  int rank = 0;
  int pid = 0;
};
struct RankReady {
  int attempt = 0;
  int rank = 0;
  Json ready;
};  // ready: see Ready
struct RankError {
  int attempt = 0;
  int rank = 0;
  WireError error;
  ProgressSnapshot progress;
};
struct RankRecord {
  int attempt = 0;
  int rank = 0;
  std::string record;
};  // record: one JSON object as text, not parsed by agents
struct RankSync {
  int attempt = 0;
  int rank = 0;
  int64_t id = 0;
};
struct RankDone {
  int attempt = 0;
  int rank = 0;
  Json done;
};  // done: see Done
struct RankExited {
  int attempt = 0;
  int rank = 0;
  int pid = 0;
  int code = 0;               // exit status; 0 when a signal ended it
  int signal = 0;             // terminating signal, 0 = exited
  bool killed_by_us = false;  // the agent sent the signal
  bool oom_killed = false;    // the kernel's OOM killer did
  int exec_errno = 0;         // the program could not be executed at all
  ProgressSnapshot progress;  // last known
  std::string log_path;       // where its output is ("" when the attempt never went)
  std::string log_tail;       // last lines of its output
  int64_t unix_micros = 0;    // when the agent saw it
};
struct AgentNotice {
  StopReason reason = StopReason::kPreempted;
};  // the agent itself got SIGTERM or a preemption notice

// ---- controller -> agent ----
struct Listen {
  int attempt = 0;
  std::string address = "127.0.0.1";
  int64_t lease_ms = 2000;
};  // lease: silence after which an agent ends its ranks
struct SlotAssignment {
  int rank = 0;
  int local_rank = 0;
  int device = -1;
  int threads = 1;
};  // device -1 = CPU
struct ResumeRequest {
  std::string mode = "auto";
  std::string path;
};  // auto | never | path
struct Start {
  int attempt = 0;
  std::string run_id;
  int world_size = 1;
  std::string store_address;
  int store_port = 0;
  ResumeRequest resume;
  Json plan;                          // to_json(RunPlan)
  std::vector<SlotAssignment> slots;  // this agent's ranks
  std::string worker;                 // path of gputrain-worker; "" = the agent's own choice
  int group_rank = 0;                 // this agent's index (GROUP_RANK of the torchrun environment)
  int64_t lease_ms = 2000;
};
struct Go {
  int attempt = 0;
};  // also: open log files under the output directory now
struct Stop {
  int attempt = 0;
  StopReason reason = StopReason::kPreempted;
  int64_t grace_ms = 0;
};
struct Kill {
  int attempt = 0;
};  // SIGKILL all ranks of the attempt
struct Release {
  int attempt = 0;
};
struct Pause {};  // SIGTSTP: stop ranks, freeze leases
struct Continue {};
struct Credit {
  int64_t bytes = 0;
};  // the agent may send that many more bytes of RankRecord
struct Synced {
  int attempt = 0;
  int rank = 0;
  int64_t id = 0;
};              // all records before Sync `id` are in events.jsonl
struct Bye {};  // kill what is left and exit
struct Heartbeat {
  int64_t sequence = 0;
};  // both ways, once a second

// ---- agent -> worker ----
struct Assign {
  int attempt = 0;
  std::string run_id;
  int rank = 0, world_size = 1, local_rank = 0, local_world_size = 1;
  int device = -1;  // among the devices this process sees (CUDA_VISIBLE_DEVICES is set: always 0); -1 = CPU
  int threads = 1;
  std::string store_address;
  int store_port = 0;
  int store_fd = -1;  // rank 0: the listening socket, inherited; others -1
  ResumeRequest resume;
  Json plan;
};

// ---- worker -> agent ----
struct WorkerHello {
  std::string version;
  int pid = 0;
};
// {step: where training continues (0 = from the start), resumed_from, rejected: [{checkpoint, why}], complete,
// total_steps,
//  steps_per_epoch, samples, parameters, notices: [text], fingerprint: {...}, model_flops_per_sample, peak_flops (null
//  = unknown), stopped_early: see Done}
struct Ready {
  Json body;
};
struct WorkerError {
  WireError error;
};
struct Record {
  std::string json;
};  // one line for events.jsonl, without ts/mono_s/attempt
struct Sync {
  int64_t id = 0;
};  // asks for Synced: sent before a checkpoint is committed
// {outcome: "complete" | "stopped", reason: to_string(StopReason), step, saved_step (-1 = none), final: {...metrics},
//  stopped_early: why the run is complete before its planned end, missing when it is not}
struct Done {
  Json body;
};

using Message = std::variant<AgentHello, Listening, RankStarted, RankReady, RankError, RankRecord, RankSync, RankDone,
                             RankExited, AgentNotice, Listen, Start, Go, Stop, Kill, Release, Pause, Continue, Credit,
                             Synced, Bye, Heartbeat, Assign, WorkerHello, Ready, WorkerError, Record, Sync, Done>;

uint16_t message_type(const Message& message);          // the number in the frame header
std::string_view message_name(const Message& message);  // "RankExited"
// The body as WIRE.md describes it. Strict both ways: message_from_json throws Error(kInternal), `where` = message and
// field, on an unknown type, a missing or unknown field, a value of the wrong type or out of range, an unknown word.
Json to_json(const Message& message);
Message message_from_json(uint16_t type, const Json& body);

// This program's version: an agent and a worker must be of the controller's.
std::string_view program_version();

}  // namespace gputrain
